"""How a following publisher is watched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le, Len


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """``[metrics]``: what ``publish`` gives to Prometheus."""

    port: Annotated[int, Ge(1), Le(65_535)] | None = None
    """TCP port on which ``--follow`` serves the metrics."""
    address: Annotated[str, Len(1)] = "127.0.0.1"
    """Address on which that port is opened; others than this machine's own need another."""
    textfile: Path | None = None
    """File to write them to after each poll, as the node exporter reads it: its name ends in .prom."""

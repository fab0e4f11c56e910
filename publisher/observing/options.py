"""Options of the metrics of a following publisher."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le, Len


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """``[metrics]``: metrics of ``publish`` for Prometheus."""

    port: Annotated[int, Ge(1), Le(65_535)] | None = None
    """TCP port on which ``publish --follow`` serves metrics to Prometheus."""
    address: Annotated[str, Len(1)] = "127.0.0.1"
    """Address on which the port is opened; by default only this machine can reach it."""
    textfile: Path | None = None
    """File to write the metrics to after each poll, for the textfile collector of the node
    exporter; its name ends in ``.prom``."""

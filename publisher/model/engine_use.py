"""The engine that planned a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class EngineUse:
    """The engine that planned a run, and the reason for this engine."""

    name: Literal["local", "spark"]
    reason: str

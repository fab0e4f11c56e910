"""The result of a benchmark: a table for people, a line of JSON for machines, and its bounds."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; it must not be greater than ``bound``, nor less than ``at_least``."""

    name: str
    value: float
    unit: str
    bound: float | None = None
    at_least: float | None = None

    @property
    def holds(self) -> bool:
        low, high = self.at_least, self.bound
        return (high is None or self.value <= high) and (low is None or self.value >= low)

    @property
    def bounds(self) -> str:
        """The bounds as people write them; empty where there is none."""
        low = "" if self.at_least is None else f"≥ {self.at_least:,g}"
        high = "" if self.bound is None else f"≤ {self.bound:,g}"
        return " ".join(filter(None, (low, high)))


@dataclass(slots=True)
class Report:
    """All figures of one benchmark in the order of measuring."""

    benchmark: str
    figures: list[Figure] = field(default_factory=list)

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        bound: float | None = None,
        at_least: float | None = None,
    ) -> None:
        """Adds a figure, and tells a waiting reader at once."""
        figure = Figure(name, value, unit, bound, at_least)
        self.figures.append(figure)
        print(f"{name}: {value:.4g} {unit}".rstrip(), file=sys.stderr, flush=True)

    def require(self, name: str, condition: bool) -> None:
        """Adds something that must be so."""
        self.add(name, 0 if condition else 1, "failures", bound=0)

    def add_seconds(self, name: str, runs: Sequence[float]) -> float:
        """Adds the best of several runs and how they spread; gives the best."""
        best = min(runs)
        spread = ", ".join(f"{seconds:.2f}" for seconds in runs)
        self.add(f"{name} (of {spread})", best, "s")
        return best

    @property
    def holds(self) -> bool:
        """True if every bound holds."""
        return all(figure.holds for figure in self.figures)

    def show(self) -> None:
        """Prints table and line."""
        table = Table(title=f"{self.benchmark}: {'PASS' if self.holds else 'FAIL'}")
        table.add_column("figure")
        for name in ("value", "bound"):
            table.add_column(name, justify="right")
        table.add_column("")
        for figure in self.figures:
            table.add_row(*_cells(figure))
        Console(width=None if sys.stdout.isatty() else 110).print(table)
        print(json.dumps(self.as_json(), ensure_ascii=False))

    def as_json(self) -> dict[str, object]:
        """The report with what it was measured on."""
        return {
            "benchmark": self.benchmark,
            "holds": self.holds,
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load": round(os.getloadavg()[0], 2),
            "figures": [{**asdict(figure), "holds": figure.holds} for figure in self.figures],
        }


def _cells(figure: Figure) -> tuple[str, str, str, str]:
    value = f"{figure.value:,.2f}" if figure.value < 1000 else f"{figure.value:,.0f}"
    verdict = "" if not figure.bounds else "PASS" if figure.holds else "FAIL"
    return figure.name, f"{value} {figure.unit}", figure.bounds, verdict

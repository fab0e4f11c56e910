"""Progress of runs on standard error: a bar with rate and remaining time, or a line for each phase."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from publisher.cli.print_report import echo
from publisher.cli.verbosity import Verbosity, verbosity
from publisher.console import Phase, Progress

_COUNTED = (Phase.SENDING, Phase.ACKNOWLEDGING)
"""Phases whose items are worth a rate."""
_UNITS = {
    Phase.READING: "parts",
    Phase.PLANNING: "lanes",
    Phase.SENDING: "documents",
    Phase.ACKNOWLEDGING: "rows",
    Phase.WAITING: "rows",
}


@dataclass
class PhaseMeter:
    """Measures the current phase of a run."""

    clock: Callable[[], float] = time.monotonic
    on_end: Callable[[str], None] | None = None
    """Receives a line about each phase that has ended."""
    _phase: Phase | None = None
    _began: float = 0
    _first: int = 0
    """Number of items that were done when the phase began."""
    _done: int = 0
    _total: int = 0
    _pending: int = 0
    """Rows that were pending before the current poll."""

    def update(self, phase: Phase, done: int, total: int) -> None:
        """Takes the number of items of a phase that are done, and of all its items."""
        if phase is not self._phase or done < self._done:
            self.end()
            self._phase, self._began, self._first = phase, self.clock(), done
        self._done, self._total = done, total
        if phase is Phase.WAITING:
            self._pending = total

    def end(self) -> None:
        """Reports the current phase as ended."""
        if self._phase is not None and self.on_end is not None:
            seconds = self.clock() - self._began
            self.on_end(
                ", ".join([f"{self._phase}: {self._items()} in {seconds:,.1f} s", *self._rate()])
            )
        self._phase = None

    def text(self) -> str:
        """Describes the phase: items, items in a second, and the remaining time."""
        parts = [self._items()] if self._total else []
        done, seconds = self._done - self._first, self.clock() - self._began
        if done and seconds:
            remaining = (self._total - self._done) * seconds / done
            parts += [*self._rate(), f"{_duration(remaining)} left"]
        if self._pending and self._phase is not Phase.WAITING:
            parts.append(f"{self._pending:,} rows pending")
        return ", ".join(parts)

    def _rate(self) -> Iterator[str]:
        done, seconds = self._done - self._first, self.clock() - self._began
        if self._phase in _COUNTED and done and seconds >= 0.1:
            yield f"{done / seconds:,.0f}/s"

    def _items(self) -> str:
        assert self._phase is not None
        return f"{self._done:,} of {self._total:,} {_UNITS[self._phase]}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def show_progress() -> Iterator[Progress | None]:
    """Shows the phases of a run on standard error.

    A bar on a terminal, unless ``-q`` is given; with ``-v`` also a line for each phase, on any output.
    Yields ``None`` if nothing is shown.
    """
    lines = (lambda line: echo([line], err=True)) if verbosity() is Verbosity.VERBOSE else None
    meter = PhaseMeter(on_end=lines)
    if sys.stderr.isatty() and verbosity() is not Verbosity.QUIET:
        with _bar(meter) as update:
            yield update
            meter.end()
    elif lines is not None:
        yield meter.update
        meter.end()
    else:
        yield None


@contextmanager
def _bar(meter: PhaseMeter) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(20),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as bar:
        task = bar.add_task("starting", total=1.0, text="")

        def update(phase: Phase, done: int, total: int) -> None:
            meter.update(phase, done, total)
            text = meter.text()
            bar.update(task, description=phase, completed=done, total=total or None, text=text)

        yield update

"""Command line of the benchmarks."""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from tests.bench.processes import adopt_orphans
from tests.bench.report import Report

BENCHMARKS: Final = (
    *("event-log", "query-back", "start", "memory"),
    *("kafka-dispatch", "kafka-whole", "write-back", "follow"),
    *("triggerless", "decode", "verify", "minimal", "history", "long-follow", "planning"),
)
GROUPS: Final = {"kafka": BENCHMARKS[4:8]}
"""Names for several benchmarks."""


@click.command(help="Runs benchmarks, all of them where none is named.")
@click.argument("names", nargs=-1, type=click.Choice([*BENCHMARKS, *GROUPS]))
@click.option("--scale", default=10, show_default=True, help="event-log: size of the larger input")
@click.option("--runs", default=3, show_default=True, help="runs of each side")
@click.option("--events", type=int, help="events of the (smaller) input, for a quick look")
@click.option("--objects", type=int, help="verify: number of objects")
def main(
    names: tuple[str, ...], scale: int, runs: int, events: int | None, objects: int | None
) -> None:
    """Exit code 0 only if every bound holds."""
    adopt_orphans()
    reports = []
    wanted = [one for name in names or BENCHMARKS for one in GROUPS.get(name, (name,))]
    for name in dict.fromkeys(wanted):
        module = importlib.import_module(f"tests.bench.{name.replace('-', '_')}")
        report: Report = module.run(scale=scale, runs=runs, events=events, objects=objects)
        report.show()
        reports.append(report)
    sys.exit(0 if all(report.holds for report in reports) else 1)


if __name__ == "__main__":
    main()

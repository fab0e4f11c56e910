"""Command line of the kill test."""

# ruff: noqa: T201 - it speaks with whoever runs it

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tests.chaos.scenarios import KillsToKafka, Verdict
from tests.services.kafka import cluster
from tests.services.servers import postgresql


@click.command(help="Kills the publisher, and the broker, at random moments; proves what is left.")
@click.option("--kills", default=20, show_default=True, help="kills of the publisher")
@click.option("--seed", default=1, show_default=True, help="of the log and the moments")
def main(kills: int, seed: int) -> None:
    """Exit code 0 only if nothing was lost, doubled or out of order, and the test was not blind."""
    with postgresql() as server, cluster() as brokers, TemporaryDirectory() as name:
        work = Path(name)
        verdicts = [KillsToKafka(server.url, brokers.topics, work, seed, say=_say).run(kills)]
    for verdict in verdicts:
        _show(verdict)
    sys.exit(1 if any(verdict.problems for verdict in verdicts) else 0)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show(verdict: Verdict) -> None:
    print(f"\n{verdict.name}")
    for name, value in verdict.figures.items():
        print(f"  {name:<32} {value}")
    for problem in verdict.problems:
        print(f"  NOT PROVED: {problem}")


if __name__ == "__main__":
    main()

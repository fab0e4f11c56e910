"""Command line of the kill test."""

# ruff: noqa: T201 - it speaks with whoever runs it

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tests.chaos.changed_urls import ChangedUrls
from tests.chaos.lost_journals import LostJournals, LostJournalsOfFiles, SharedNames
from tests.chaos.replays import KillsOfReplays
from tests.chaos.scenarios import BrokerKills, KillsToFiles, KillsToKafka, Verdict
from tests.services.kafka import cluster
from tests.services.servers import postgresql

KINDS = (
    *("kafka", "files", "replay", "broker"),
    *("lost-journal", "older-journal", "shared-name", "lost-journal-files"),
    "changed-url",
)


@click.command(help="Kills the publisher, and the broker, at random moments; proves what is left.")
@click.option("--kills", default=20, show_default=True, help="kills of each scenario")
@click.option("--seed", default=1, show_default=True, help="of the logs and of the moments")
@click.option(
    "--only", type=click.Choice(KINDS), multiple=True, help="some of the scenarios; default: all"
)
def main(kills: int, seed: int, only: tuple[str, ...]) -> None:
    """Exit code 0 only if nothing was lost, doubled or out of order, and no test was blind."""
    begun, bad = time.monotonic(), 0
    for verdict in _verdicts(kills, seed, only or KINDS):
        _show(verdict)
        bad += bool(verdict.problems)
    print(f"\nseed {seed}, {time.monotonic() - begun:.0f} s")
    sys.exit(1 if bad else 0)


def _verdicts(kills: int, seed: int, kinds: tuple[str, ...]) -> Iterator[Verdict]:
    with postgresql() as server, cluster() as brokers, TemporaryDirectory() as name:
        work = Path(name)
        if "kafka" in kinds:
            yield KillsToKafka(server.url, brokers.topics, work, seed, say=_say).run(kills)
        if "files" in kinds:
            yield KillsToFiles(server.url, work, seed, say=_say).run(kills)
        if "replay" in kinds:
            yield KillsOfReplays(work, seed, say=_say).run(kills)
        if "broker" in kinds:
            yield BrokerKills(server.url, brokers, work, seed, say=_say).run(kills)
        if "lost-journal" in kinds:
            yield LostJournals(server.url, brokers.topics, work, seed, "lost", say=_say).run(kills)
        if "older-journal" in kinds:
            yield LostJournals(server.url, brokers.topics, work, seed, "older", say=_say).run(kills)
        if "shared-name" in kinds:
            yield SharedNames(server.url, brokers.topics, work, seed, say=_say).run(kills)
        if "lost-journal-files" in kinds:
            yield LostJournalsOfFiles(server.url, work, seed, say=_say).run(kills)
        if "changed-url" in kinds:
            yield ChangedUrls(server.url, brokers.topics, work, seed, say=_say).run(kills)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show(verdict: Verdict) -> None:
    print(f"\n{verdict.name}")
    for name, value in verdict.figures.items():
        print(f"  {name:<32} {value}")
    for problem in verdict.problems:
        print(f"  NOT PROVED: {problem}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

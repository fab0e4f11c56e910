"""Command line of the kill test."""

# ruff: noqa: T201 - it speaks with whoever runs it

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import click

from tests.chaos.changed_urls import ChangedUrls
from tests.chaos.lost_ledgers import LostLedgers, LostLedgersOfFiles, SharedNames
from tests.chaos.replays import KillsOfReplays
from tests.chaos.scenarios import BrokerKills, KillsToFiles, KillsToKafka, Verdict
from tests.services.kafka import KafkaCluster, cluster
from tests.services.servers import postgresql

KINDS = (
    *("kafka", "files", "replay", "broker"),
    *("lost-ledger", "older-ledger", "shared-name", "lost-ledger-files"),
    "changed-url",
)


class Scenario(Protocol):
    """Kills of one kind, and the proof of what they left."""

    def run(self, kills: int) -> Verdict:
        """Kills at least so many times."""


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
        for kind in KINDS:
            if kind in kinds:
                work = Path(name, kind)
                work.mkdir()
                yield _scenario(kind, server.url, brokers, work, seed).run(kills)


def _scenario(kind: str, url: str, brokers: KafkaCluster, work: Path, seed: int) -> Scenario:
    topics = brokers.topics
    match kind:
        case "kafka":
            return KillsToKafka(url, topics, work, seed, say=_say)
        case "files":
            return KillsToFiles(url, work, seed, say=_say)
        case "replay":
            return KillsOfReplays(work, seed, say=_say)
        case "broker":
            return BrokerKills(url, brokers, work, seed, say=_say)
        case "lost-ledger":
            return LostLedgers(url, topics, work, seed, "lost", say=_say)
        case "older-ledger":
            return LostLedgers(url, topics, work, seed, "older", say=_say)
        case "shared-name":
            return SharedNames(url, topics, work, seed, say=_say)
        case "lost-ledger-files":
            return LostLedgersOfFiles(url, work, seed, say=_say)
        case _:
            return ChangedUrls(url, topics, work, seed, say=_say)


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

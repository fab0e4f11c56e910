"""A job without Spark that publishes a known log to a topic, and what is refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError
from publisher.ledger.conservation import RunReport
from publisher.observing.contract import Observers
from publisher.runs import recover as recovering
from publisher.runs.follow import Follower
from publisher.runs.publish import publish as publish_job
from publisher.stop_request import StopRequest
from tests.chaos.known_log import Found, KnownLog, judge_documents
from tests.services.topics import Record, Topics

KAFKA = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"

[run]
lanes = 3
"""


class LoggedJob:
    """A job of its own directory, which publishes a known log to a topic."""

    def __init__(self, log: KnownLog, folder: Path, kafka: Topics, topic: str) -> None:
        self.log = log
        self.rng = random.Random(1)
        folder.mkdir(parents=True)
        self.path = folder / "people.toml"
        self.ledger = folder / ".xds-publisher"
        self._rest = KAFKA.format(bootstrap=kafka.bootstrap, topic=topic)
        self.write("")

    def write(self, more: str) -> None:
        self.path.write_text(f"{self.log.source}{self._rest}{more}")

    def log_rows(self, count: int) -> None:
        self.log.add(self.rng, count)

    def publish(self) -> RunReport:
        return publish_job(load(self.path))

    def follow(self) -> None:
        Follower(load(self.path), LocalEngine(), Observers(()), StopRequest()).run()

    def refused(self, why: str, start: Callable[[], object] | None = None) -> str:
        """The message of a start that is refused, which must leave all rows as they are."""
        before = self.log.statuses()
        with pytest.raises(FatalError, match=why) as refused:
            (start or self.publish)()
        assert self.log.statuses() == before
        return refused.value.message

    def recover(self) -> RunReport:
        return recovering.recover(load(self.path))


RECOVERED = ("recovered", b"at-least-once")


def judge(records: list[Record], counts: Counter[int]) -> Found:
    """Judges a topic after a recovery: what was sent again as recovered must be marked so, and
    complete it; all else must be there once and in order."""
    values = judge_documents(((r.partition, r.value or b"") for r in records), counts)
    again = {r.key for r in records if RECOVERED in r.headers}
    once = [r for r in records if r.key not in again]
    known = Counter({n: c for n, c in counts.items() if _key(n) not in again})
    rest = judge_documents(((r.partition, r.value or b"") for r in once), known)
    return Found(values.values, values.lost, rest.duplicated, rest.out_of_order, values.strange)


def _key(number: int) -> bytes:
    return f"idu={number},table=usr,schema=indirect".encode()

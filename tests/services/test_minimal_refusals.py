"""Minimal modifies around refused documents: objects are those of all records that were not refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from publisher.config.job_file import load
from publisher.consumer import Objects, from_record
from publisher.dispatch.refusals import refusals_in
from publisher.ledger.conservation import RunReport
from publisher.ledger.read import find_run
from publisher.runs import run as spine
from publisher.runs.acknowledge import SentRun
from publisher.runs.publish import publish as publish_job
from tests.services.topics import Topics
from tests.support.event_log_files import csv_text, event
from tests.support.local_engine import EngineSwitch

pytestmark = pytest.mark.usefixtures("local_engine")

Values = dict[str, dict[str, set[str]]]
Event = tuple[int, int, str, str, str]
"""Event type, object, column, old and new value."""
POLLS = "poll_size = 1\npoll_slack = 0\n"
"""Each event is a document by itself."""


class Job:
    """A job with minimal modifies from files to a topic that accepts small documents only."""

    def __init__(self, kafka: Topics, base: Path, limit: int, more: str = "", polls: str = POLLS):
        self.kafka, self.base = kafka, base
        self.topic = kafka.make(max_message_bytes=limit)
        (base / "in").mkdir(parents=True)
        (base / "job.toml").write_text(
            f'[[sources]]\nname = "hr"\nsnapshots = ["in"]\n{polls}'
            f'[dispatch]\nto = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{self.topic}"\n'
            f"[run]\nlanes = 2\n[documents]\nminimal = true\n{more}"
        )
        self.runs = 0
        self.before_sending: Callable[[], None] | None = None
        self.expected: Values = {}

    def publish(self, *events: Event) -> RunReport:
        """Publishes events, and applies those that were not refused to the expected objects."""
        self.runs += 1
        rows = [
            event(
                1000 * self.runs + place,
                event_type=kind,
                table_key=f"idu={number}",
                column_name=column,
                old_value=old or None,
                new_value=new or None,
            )
            for place, (kind, number, column, old, new) in enumerate(events)
        ]
        (self.base / "in" / f"{self.runs}.csv").write_text(csv_text(rows))
        report = self._publish()
        refused = self.refused(report)
        for place, each in enumerate(events):
            if 1000 * self.runs + place not in refused:
                self._expect(each)
        return report

    def _publish(self) -> RunReport:
        """Changes the topic with ``before_sending`` once the run is planned."""
        settings = load(self.base / "job.toml")
        if self.before_sending is None:
            return publish_job(settings)
        with pytest.MonkeyPatch.context() as patch:
            send = spine.send

            def change_and_send(*given: Any) -> SentRun:
                assert self.before_sending is not None
                self.before_sending()
                return send(*given)

            patch.setattr(spine, "send", change_and_send)
            return publish_job(settings)

    def refused(self, report: RunReport) -> set[int]:
        refusals = refusals_in(find_run(Path(report.ledger)).texts)
        refused = [each.records for each in refusals]
        return {int(number) for numbers in refused for number in numbers.split(",")}

    def _expect(self, each: Event) -> None:
        kind, number, column, old, new = each
        name = f"idu={number},table=usr"
        if kind == 4:
            self.expected.pop(name, None)
            return
        values = self.expected.setdefault(name, {}).setdefault(column, set())
        if kind == 3:
            values.clear()
        values -= {old}
        values |= {new} - {""}

    def check(self) -> None:
        """Compares the objects of a consumer with the expected ones."""
        assert self.consumed() == _without_empty(self.expected)

    def consumed(self) -> Values:
        """The values of the objects of a consumer."""
        objects = Objects()
        for record in self.kafka.read(self.topic, "read_committed", wait=False):
            for operation in from_record(record.value, record.key, record.headers).operations:
                objects.apply(operation)
        return _without_empty(
            {
                name: {
                    column: {value.text for value in values}
                    for column, values in known.attributes.items()
                }
                for name, known in objects.items()
            }
        )


def _without_empty(objects: Values) -> Values:
    return {
        name: filled
        for name, attributes in objects.items()
        if (filled := {column: values for column, values in attributes.items() if values})
    }


def random_events(chance: random.Random, number: int, count: int) -> list[Event]:
    """Events whose new values are unique, or one of two frequent ones; some are large."""
    events = []
    for place in range(count):
        new = chance.choice([f"{number}-{place}", "u", "v"]) + "x" * chance.choice(
            [0] * 5 + [3_000]
        )
        events.append(
            (
                chance.choice([1, 2, 2, 3, 3, 3, 3, 4]),
                chance.randint(1, 3),
                chance.choice(["fname", "lname"]),
                chance.choice(["u", "v"]),
                new,
            )
        )
    return events


@pytest.mark.parametrize("more", ["", "batch_size = 3\n", 'value_format = "json"\n'])
def test_objects_are_those_of_all_records_that_were_not_refused(
    kafka: Topics, tmp_path: Path, more: str
) -> None:
    chance = random.Random(5)
    polls = POLLS if not more.startswith("batch") else "poll_size = 3\npoll_slack = 0\n"
    job = Job(kafka, tmp_path, 2_500, more, polls)
    reasons = Counter[str]()
    for number in range(6):
        report = job.publish(*random_events(chance, number, 40))
        reasons.update(report.reasons.get("rejected", {}))
        job.check()
    assert reasons["too-large"] > 10


PAIRS = "poll_size = 2\npoll_slack = 0\n"
"""Two neighbouring events of one object are one document."""
LARGE = "x" * 3_000


def other(value: str) -> Event:
    """An event of another object."""
    return 3, 2, "fname", "", value


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_differences_from_documents_that_are_refused_unexpectedly_are_refused(
    kafka: Topics, tmp_path: Path, local_engine: EngineSwitch, engine: str, spark: object
) -> None:
    """The topic takes smaller documents than at planning."""
    if engine == "spark":
        local_engine.use_spark()
    job = Job(kafka, tmp_path, 100_000, polls=PAIRS)
    job.publish((3, 1, "fname", "", "u"), other("u"))
    job.before_sending = lambda: kafka.alter(job.topic, max_message_bytes=2_500)
    report = job.publish(
        *((3, 1, "fname", "", "a"), (3, 1, "lname", "", LARGE)),
        *((3, 1, "fname", "", "b"), other("b")),
        *((1, 1, "lname", "", "c"), other("c")),
        *((3, 1, "fname", "", "d"), other("d")),
        *((4, 1, "", "", ""), other("e")),
        *((1, 1, "fname", "", "f"), other("f")),
    )
    assert report.reasons["rejected"] == {"too-large": 2, "after-refused": 2}
    job.check()
    assert job.consumed()["idu=1,table=usr"] == {"fname": {"f"}}
    job.before_sending = None
    job.publish((3, 1, "fname", "", "g"), other("g"))
    job.check()


def test_an_object_that_is_renamed_stays_in_doubt(kafka: Topics, tmp_path: Path) -> None:
    polls = 'key_change = "modify-association"\n' + PAIRS
    job = Job(kafka, tmp_path, 100_000, polls=polls)
    job.publish((3, 1, "fname", "", "u"), other("u"))
    job.before_sending = lambda: kafka.alter(job.topic, max_message_bytes=2_500)
    report = job.publish(
        *((3, 1, "fname", "", "a"), (3, 1, "lname", "", LARGE)),
        *((2, 1, "idu", "1", "5"), other("b")),
        *((3, 5, "fname", "", "c"), other("c")),
    )
    assert report.reasons["rejected"] == {"too-large": 2, "after-refused": 1}
    assert job.consumed()["idu=5,table=usr"] == {"fname": {"u"}}
    job.before_sending = None
    assert job.publish((3, 5, "fname", "", "c")).outcomes["published"] == 1
    assert job.consumed() == {
        "idu=5,table=usr": {"fname": {"c"}},
        "idu=2,table=usr": {"fname": {"c"}},
    }

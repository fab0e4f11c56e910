"""Minimal modifies in topics: consumers get the same objects, also around refusals and crashes."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.consumer import Objects, from_record
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.errors import UnreachableError
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job
from publisher.runs.replay import dispatch
from tests.services.topics import Topics
from tests.support.event_log_files import csv_text, event
from tests.support.published_objects import ObjectValues, values_of

pytestmark = pytest.mark.usefixtures("local_engine")


class Job:
    """A job from files to a topic."""

    def __init__(self, kafka: Topics, base: Path, topic: str, *, minimal: bool) -> None:
        self._kafka = kafka
        self._base = base
        self._topic = topic
        (base / "in").mkdir(parents=True)
        text = (
            '[[sources]]\nname = "hr"\nsnapshots = ["in"]\n'
            f'[dispatch]\nto = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{topic}"\n'
            f"[documents]\nminimal = {str(minimal).lower()}\n"
        )
        (base / "job.toml").write_text(text)

    @property
    def settings(self) -> Settings:
        settings = replace(load(self._base / "job.toml"), name=self._base.name)
        return replace(settings, run=replace(settings.run, lanes=2))

    def publish(self) -> RunReport:
        return publish_job(self.settings)

    def write(self, *events: tuple[int, int, str, str]) -> None:
        """Writes a file of events: type, object, old and new value."""
        number = len(list((self._base / "in").iterdir()))
        rows = [
            event(
                1000 * number + place,
                table_key=f"idu={obj}",
                event_type=type_,
                old_value=old or None,
                new_value=new or None,
            )
            for place, (type_, obj, old, new) in enumerate(events, 1)
        ]
        (self._base / "in" / f"{number}.csv").write_text(csv_text(rows))

    def objects(self) -> ObjectValues:
        objects = Objects()
        for record in self._kafka.read(self._topic, "read_committed", wait=False):
            for operation in from_record(record.value, record.key, ()).operations:
                objects.apply(operation)
        return values_of(objects)


def make_job(kafka: Topics, base: Path, *, minimal: bool = True, **settings: int) -> Job:
    return Job(kafka, base, kafka.make(**settings), minimal=minimal)


def test_a_topic_leads_to_the_same_objects(
    kafka: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second run cannot be sent at first, and is finished by the next start."""
    chance = random.Random(3)
    full = make_job(kafka, tmp_path / "full", minimal=False)
    minimal = make_job(kafka, tmp_path / "minimal")

    def fail(*_: object) -> None:
        raise UnreachableError("no broker answers: start one")

    documents = []
    for number in range(4):
        kinds = [chance.choice([1, 2, 3, 3, 3, 4]) for _ in range(25)]
        events = [
            (kind, chance.randint(1, 4), chance.choice("uv"), chance.choice(["", "u", "v", "w"]))
            for kind in kinds
        ]
        full.write(*events)
        minimal.write(*events)
        if number % 2:
            with monkeypatch.context() as patch:
                patch.setattr(KafkaDispatcher, "dispatch", fail)
                with pytest.raises(UnreachableError):
                    minimal.publish()
        documents.append((full.publish().documents, minimal.publish().documents))
        assert minimal.objects() == full.objects()
    assert sum(few for _, few in documents) < sum(many for many, _ in documents)


def test_runs_that_are_sent_again_make_all_objects_unknown(kafka: Topics, tmp_path: Path) -> None:
    job = make_job(kafka, tmp_path / "again")
    job.write((3, 1, "", "u"))
    first = job.publish()
    job.write((3, 1, "", "v"))
    job.publish()
    dispatch(Path(first.ledger), job.settings.kafka.target, job.settings)
    job.write((3, 1, "", "v"))
    assert job.publish().outcomes["published"] == 1
    job.write((3, 1, "", "v"))
    assert job.publish().reasons["ignored"] == {"unchanged": 1}
    assert "text='v'" in str(job.objects())
    assert "text='u'" not in str(job.objects())


def test_a_refused_document_makes_its_object_unknown(kafka: Topics, tmp_path: Path) -> None:
    job = make_job(kafka, tmp_path / "refused", max_message_bytes=5_000)
    job.write((3, 1, "", "u"), (3, 2, "", "u"))
    job.publish()
    job.write((3, 1, "", "x" * 6_000), (3, 2, "", "v"))
    refused = job.publish()
    assert refused.reasons["rejected"] == {"too-large": 1}
    job.write((3, 1, "", "u"), (3, 2, "", "v"))
    report = job.publish()
    assert report.outcomes["published"] == 1
    assert report.reasons["ignored"] == {"unchanged": 1}
    assert {name: list(values) for name, (_, values) in job.objects().items()} == {
        "idu=1,table=usr": ["fname"],
        "idu=2,table=usr": ["fname"],
    }
    text = str(job.objects()["idu=1,table=usr"])
    assert "text='u'" in text
    assert "xxx" not in text

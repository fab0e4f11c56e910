"""``explain`` from offsets of documents to their records, with a real broker and a live log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from tests.services.databases import sqlite_place
from tests.services.live_tables import make_tables
from tests.services.test_publish_live import LiveJob
from tests.services.topics import Record, Topics

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
dead_letter_topic = "{letters}"

[database]
url = "{url}"
"""


@dataclass(frozen=True)
class PublishedJob:
    """A published job: its files, and the records of its topics."""

    base: Path
    ledger_run: Path
    documents: list[Record]
    letters: list[Record]
    topic: str
    letter_topic: str
    kafka: Topics

    def explain(self, *words: object) -> tuple[int, list[dict], str]:
        result = CliRunner().invoke(cli, ["explain", *map(str, words), "--json"])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, json.loads(result.stdout or "[]"), result.stderr

    def stories(self, *words: object) -> list[dict]:
        code, stories, err = self.explain(*words)
        assert code == 0, err
        return stories


@pytest.fixture
def published(kafka: Topics, tmp_path: Path) -> PublishedJob:
    return publish(kafka, tmp_path)


def publish(kafka: Topics, tmp_path: Path) -> PublishedJob:
    place = sqlite_place(tmp_path / "hr.sqlite")
    make_tables(place)
    topic, letters = kafka.make(partitions=3), kafka.make()
    rest = JOB.format(bootstrap=kafka.bootstrap, topic=topic, letters=letters, url=place.url)
    job = LiveJob(tmp_path).write('\ntable = "log"\n', rest)
    code, _, err = job.invoke("publish")
    assert code == 4, err
    return PublishedJob(
        tmp_path, job.ledger_run(1), kafka.read(topic), kafka.read(letters), topic, letters, kafka
    )


def headers(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


def test_documents_lead_to_their_records_and_back(published: PublishedJob) -> None:
    assert len(published.documents) == 7
    for record in published.documents:
        place = f"{published.topic}:{record.partition}:{record.offset}"
        found = headers(record)
        stories = published.stories(published.ledger_run, "--document", place)
        assert ",".join(story["position"] for story in stories) == found["record-ids"]
        for story in stories:
            assert story["document"]["text"].encode() == record.value
            assert (story["outcome"], story["written"]) == ("published", "S")


def test_a_lookup_is_shown_from_the_offset_of_its_document(published: PublishedJob) -> None:
    stories = [
        story
        for record in published.documents
        for story in published.stories(
            *("-c", published.base / "hr.toml", "--document"),
            f"{published.topic}:{record.partition}:{record.offset}",
        )
    ]
    assert any(story["lookups"] and story["lookups"][0]["row"] for story in stories)
    assert all(story["run"] == "hr-000001" for story in stories)


def test_dead_letters_lead_to_their_records(published: PublishedJob) -> None:
    for record in published.letters:
        place = f"{published.letter_topic}:{record.partition}:{record.offset}"
        stories = published.stories(published.ledger_run, "--document", place)
        assert headers(record)["reason"] in {story["reason"] for story in stories}


def test_an_offset_without_a_document_is_refused(published: PublishedJob) -> None:
    used = {(record.partition, record.offset) for record in published.documents}
    partition, offset = max(used)
    for place, message in {
        f"{published.topic}:{partition}:{offset + 1}": "has no record: it is a mark",
        f"{published.topic}:9:0": "has no partition 9",
    }.items():
        code, _, err = published.explain(published.ledger_run, "--document", place)
        assert (code, message in err) == (2, True), err


def test_lines_of_part_files_lead_to_their_records(published: PublishedJob) -> None:
    target = published.base / "further"
    words = ["dispatch", str(published.ledger_run), "--to", str(target)]
    assert CliRunner().invoke(cli, words).exit_code in (0, 4)
    parts = sorted(target.glob("part-*.xds"))
    lines = [(part, n) for part in parts for n, _ in enumerate(part.read_text().splitlines(), 1)]
    assert len(lines) == len(published.documents)
    for part, number in lines:
        stories = published.stories("--document", f"{part}:{number}")
        text = part.read_text().splitlines()[number - 1]
        assert {story["document"]["text"] for story in stories} == {text}
    code, _, err = published.explain("--document", f"{parts[0]}:9999")
    assert code == 2
    assert "correct line 9999" in err

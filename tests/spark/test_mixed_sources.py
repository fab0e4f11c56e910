"""One job that reads an event log, change tables, a queue and an extract: precedence, order and counts by
source.

All four speak of the same objects, so what is of one source must not touch what is of another.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.dispatch.kafka.records import LaneDocuments
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.ledger.read import find_run
from publisher.reports.explain import explain
from tests.support.event_ids import ORIGIN
from tests.support.mixed_sources import PEOPLE, write_inputs

pytestmark = pytest.mark.usefixtures("spark")


class Mixed:
    """The run."""

    def __init__(self, folder: Path) -> None:
        self.read = write_inputs(folder)
        job = str(folder / "job.toml")
        arguments = ["publish", "-c", job, "--json", "--now", "2025-01-01T00:00:00Z"]
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 4, done.output  # beyond the budget of rejected records, which is 0
        self.report = json.loads(done.stdout)
        self.ledger_run, self.target = Path(self.report["ledger"]), Path(self.report["target"])

    def records(self) -> pa.Table:
        tables = find_run(self.ledger_run).tables
        assert tables is not None
        return tables["records"]


@pytest.fixture(scope="module")
def run(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    return Mixed(tmp_path_factory.mktemp("mixed"))


def test_records_are_counted_by_source(run: Mixed) -> None:
    many = len(PEOPLE)
    found = {source["name"]: source for source in run.report["sources"]}
    assert {name: source["read"] for name, source in found.items()} == run.read
    assert run.report["read"] == sum(run.read.values())
    some = {
        name: {outcome: n for outcome, n in source["outcomes"].items() if n}
        for name, source in found.items()
    }
    assert some == {
        "log": {"published": 3 * many, "superseded": many, "ignored": many},
        "tables": {"published": 3 * many, "rejected": 1},
        "queue": {"published": many, "ignored": many + 2, "held": 1},
        "extract": {"published": 3 * many},
    }


def test_precedence_holds_within_a_source(run: Mixed) -> None:
    """The log's query-back and delete leave the others' values and inserts alone."""
    stories = explain(run.ledger_run, "idu=3")
    fates: dict[str, list[str]] = defaultdict(list)
    for story in stories:
        fates[story.source].append(story.outcome)
    assert fates == {
        "log": ["published", "superseded", "ignored", "published", "published"],
        "tables": ["published", "published"],
        "queue": ["published"],
        "extract": ["published", "published", "published"],
    }
    (superseded,) = (story for story in stories if story.outcome == "superseded")
    assert (superseded.position, superseded.by) == ("12", "13")


def test_order_holds_within_a_source(run: Mixed) -> None:
    operations: dict[tuple[str, str], list[str]] = defaultdict(list)
    for headers, key, value in records_to_send(run):
        text = value.rpartition("</value>")[0].rpartition(">")[2]
        operations[headers["source"], key].append(f"{headers['operation']} {text}".strip())
    for number in PEOPLE:
        key = f"idu={number},table=usr,schema=hr"
        assert operations["log", key] == [f"modify log {number}", "delete", f"add again {number}"]
        assert operations["tables", key] == ["add ct", f"modify table {number}"]
        assert operations["queue", key] == [f"modify {700 + number}"]
        assert operations["extract", key] == [
            f"modify lx {number} 2",
            "delete",
            f"add lx {number} 1",
        ]
    assert len(operations) == 4 * len(PEOPLE)


def test_every_record_and_header_names_its_source(run: Mixed) -> None:
    counted = {
        values["source"]: values["records_sum"]
        for values in run.records().group_by("source").aggregate([("records", "sum")]).to_pylist()
    }
    assert counted == dict(enumerate(run.read.values()))
    forms = {
        "log": r"[0-9]{1,2}",
        "tables": "[0-9]{35}",
        "queue": r"MAIN:3\.[0-9]+@3\.[0-9]+",
        "extract": r"usr\.dat:[0-9]+",
    }
    for headers, _, _ in records_to_send(run):
        assert re.fullmatch(forms[headers["source"]], headers["position"]), headers


def records_to_send(run: Mixed) -> list[tuple[dict[str, str], str, str]]:
    """Returns the records for Kafka: headers, key and value of each document."""
    found = []
    stored = find_run(run.ledger_run)
    for lane in stored.with_rows().lanes(stored.manifest):
        names = tuple(source["name"] for source in run.report["sources"])
        prefixes = tuple(ORIGIN.length(name) for name in names)
        reader = LaneDocuments(lane, names, TopicTemplate("x"), id_prefixes=prefixes)
        for batch in reader.batches(0, 1000):
            for key, value, headers in batch.records:
                assert key is not None
                texts = {name: bytes(text or b"").decode() for name, text in headers}  # type: ignore[arg-type]
                found.append((texts, key.decode(), value.decode()))
    return found

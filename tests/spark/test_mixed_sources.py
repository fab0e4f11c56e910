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
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.dispatch.kafka.records import LaneDocuments
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.journal.lane_writer import LaneNames
from publisher.reports.explain import explain
from publisher.sources.dispatch_queue.options import DispatchQueueOptions, QueueTable
from publisher.sources.linkexpress import LinkexpressOptions
from publisher.sources.linkexpress.options import ExtractedTable
from tests.support import change_table_files as tables
from tests.support import dispatch_queue_files as queues
from tests.support import linkexpress_files as extracts
from tests.support.event_log_files import csv_text, event

pytestmark = pytest.mark.usefixtures("spark")

LANES = 3
PEOPLE = range(1, 9)
JOB = f"""
[[sources]]
name = "log"
format = "event-log"
snapshots = ["log"]
future_events = true
poll_size = 50
poll_slack = 2
schema = "hr"

[[sources]]
name = "tables"
format = "change-table"
snapshots = ["usr__ct.csv"]
source_table = "hr.usr"
exclude_columns = ["idu"]

[[sources]]
name = "queue"
format = "dispatch-queue"
snapshots = ["queue.dat"]
null_mode = "none"

[[sources.tables]]
number = 7
name = "usr"
schema = "hr"
key = ["idu"]
columns = ["idu INTEGER", "no INTEGER"]

[[sources]]
name = "extract"
format = "linkexpress"
snapshots = ["usr.dat"]
unit = "table"
extract = "diff"
difftype = "JNL"
nulls = true
charset = "UTF-8"

[[sources.tables]]
name = "usr"
schema = "hr"
key = ["idu"]
items = ["idu INTEGER", "fname VARCHAR(8)"]

[tables.usr]
schema = "hr"
key = ["idu"]
columns = {{ idu = "int", fname = "string", lname = "string" }}

[dispatch]
path = "out"

[run]
lanes = {LANES}
"""
EXTRACT = LinkexpressOptions(
    unit="table",
    extract="diff",
    nulls=True,
    difftype="JNL",
    charset="UTF-8",
    tables=(
        ExtractedTable(
            name="usr", schema="hr", key=("idu",), items=("idu INTEGER", "fname VARCHAR(8)")
        ),
    ),
)
QUEUED = QueueTable(
    number=7, name="usr", schema="hr", key=("idu",), columns=("idu INTEGER", "no INTEGER")
)
QUEUE = DispatchQueueOptions(null_mode="none", tables=(QUEUED,))
FILES = 4
"""Of the log, so that several tasks read it and several order it by time."""


def write_log(folder: Path) -> int:
    """For each of the people a value that a query-back (of another column) leaves alone, one that it
    supersedes, a delete, and a value behind it."""
    folder.mkdir()
    rows = []
    for number in PEOPLE:
        common = {"table_key": f"idu={number}", "old_value": None}
        rows += [
            event(**common, event_type=3, column_name="fname", new_value=f"log {number}"),
            event(**common, event_type=3, column_name="lname", new_value="gone"),
            event(**common, event_type=8, column_name="lname", new_value=None),
            event(**common, event_type=4, column_name=None, new_value=None),
            event(**common, event_type=1, column_name="fname", new_value=f"again {number}"),
        ]
    for record_id, row in enumerate(rows, 1):
        row["record_id"] = record_id
    for place in range(FILES):
        part = rows[place * len(rows) // FILES : (place + 1) * len(rows) // FILES]
        (folder / f"{place}.csv").write_text(csv_text(part))
    return len(rows)


def write_tables(path: Path) -> int:
    """For each an insert and an update with its before image."""
    rows = []
    for number in PEOPLE:
        idu = str(number)
        rows += [
            tables.record(number * 10, "I", range(10), idu=idu, fname="ct"),
            tables.record(number * 10 + 1, "U", (1,), idu=idu, fname=f"table {number}"),
            tables.record(number * 10 + 1, "B", (), idu=idu, fname="ct"),
        ]
    rows.append(tables.record(9999, "X", (1,), idu="1"))
    tables.write(path, rows)
    return len(rows)


def write_queue(path: Path) -> int:
    """For each an update and its commit, at the end what is rolled back and what is open."""
    queue = queues.Queue(QUEUE)

    def update(number: int, new: int, transaction: int) -> queues.Row:
        images = (queues.image(QUEUED, [number, value], QUEUE) for value in (0, new))
        return queue.row(3, *images, TRANSACT_ID=transaction)

    rows = []
    for number in PEOPLE:
        rows += [update(number, 700 + number, number), queue.row(4, TRANSACT_ID=number)]
    rows += [update(1, 99, 50), queue.row(10, TRANSACT_ID=50), update(1, 98, 51)]
    path.write_bytes(queues.binary(rows, QUEUE))
    return len(rows)


def write_extract(path: Path) -> int:
    """For each an update, a delete, an insert."""
    records = []
    for number in PEOPLE:
        for code in (2, 3, 1):
            name = f"lx {number} {code}".encode()
            values = [number, {"length": len(name), "data": name}]
            records.append(extracts.record(EXTRACT, 0, code, values))
    path.write_bytes(b"".join(records))
    return len(records)


class Mixed:
    """The run."""

    def __init__(self, folder: Path) -> None:
        self.read = {
            "log": write_log(folder / "log"),
            "tables": write_tables(folder / "usr__ct.csv"),
            "queue": write_queue(folder / "queue.dat"),
            "extract": write_extract(folder / "usr.dat"),
        }
        job = folder / "job.toml"
        job.write_text(JOB)
        arguments = ["publish", "-c", str(job), "--json", "--now", "2025-01-01T00:00:00Z"]
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 4, done.output  # beyond the budget of rejected records, which is 0
        self.report = json.loads(done.stdout)
        self.journal, self.target = Path(self.report["journal"]), Path(self.report["target"])

    def decisions(self) -> pa.Table:
        files = (self.journal / LaneNames(lane).decisions for lane in range(LANES))
        return pa.concat_tables(pq.read_table(path) for path in files)


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
    stories = explain(run.journal, "idu=3")
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
        for values in run.decisions().group_by("source").aggregate([("records", "sum")]).to_pylist()
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


def test_events_are_ranked_by_time_beside_other_sources(run: Mixed) -> None:
    """Ranks make polls: each event of the log has its own, whatever tasks read and order it."""
    log = run.decisions().filter(pa.compute.equal(run.decisions()["source"], 0))
    ranks = log.sort_by("high").column("rank").to_pylist()
    assert ranks == list(range(1, run.read["log"] + 1))


def records_to_send(run: Mixed) -> list[tuple[dict[str, str], str, str]]:
    """Returns the records for Kafka: headers, key and value of each document."""
    found = []
    for lane in range(LANES):
        names = tuple(source["name"] for source in run.report["sources"])
        reader = LaneDocuments(lane, run.journal, run.target, names, TopicTemplate("x"))
        for batch in reader.batches(0, 1000):
            for key, value, headers in batch.records:
                assert key is not None
                texts = {name: bytes(text or b"").decode() for name, text in headers}  # type: ignore[arg-type]
                found.append((texts, key.decode(), value.decode()))
    return found

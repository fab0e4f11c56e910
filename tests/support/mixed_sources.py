"""Four sources that speak of the same objects: an event log, change tables, a queue and an extract."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from publisher.formats.dispatch_queue.options import DispatchQueueOptions, QueueTable
from publisher.formats.linkexpress import LinkexpressOptions
from publisher.formats.linkexpress.options import ExtractedTable
from tests.support import change_table_files as tables
from tests.support import dispatch_queue_files as queues
from tests.support import linkexpress_files as extracts
from tests.support.event_log_files import csv_text, event

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


INPUTS: Mapping[str, str] = {
    "log": "log",
    "tables": "usr__ct.csv",
    "queue": "queue.dat",
    "extract": "usr.dat",
}
"""Files and directories of the sources."""


def write_inputs(folder: Path) -> dict[str, int]:
    """Writes the job file and the inputs of all sources; returns the number of records of each source."""
    (folder / "job.toml").write_text(JOB)
    write = {
        "log": write_log,
        "tables": write_tables,
        "queue": write_queue,
        "extract": write_extract,
    }
    return {name: write[name](folder / path) for name, path in INPUTS.items()}

"""Small event logs in each kind of file."""

from __future__ import annotations

import gzip
from pathlib import Path

from publisher.formats.event_log.source import event_log
from publisher.formats.files.options import SnapshotOptions
from tests.support.event_log_files import csv_text, event, write
from tests.support.source_contract import (
    Sample,
    count_csv,
    count_json,
)

EVENTS = [
    event(1, perpetrator="app", event_type=1),
    event(2, old_value='a "b",\nc', table_key="idu=2"),
    event(3, event_type=4, table_key="idu=2"),
    event(4, status="S"),
    event(5, event_type=9),
    event("six"),
    event(7, table_key="idu=3", column_name="photo", new_value="?"),
]


def write_gzip(path: Path) -> Path:
    path.write_bytes(gzip.compress(csv_text(EVENTS).encode(), mtime=0))
    return path


UNUSED = frozenset({"transaction"})

SAMPLES = (
    Sample("log.csv", event_log(), lambda path: write(path, EVENTS), 7, count_csv, UNUSED),
    Sample(
        "log.jsonl",
        event_log(snapshot=SnapshotOptions(block_size=64)),
        lambda path: write(path, EVENTS),
        7,
        count_json,
        UNUSED,
    ),
    Sample("log.parquet", event_log(), lambda path: write(path, EVENTS), 7, None, UNUSED),
    Sample("log.csv.gz", event_log(), write_gzip, 7, None, UNUSED),
)

"""Small tables to compare."""

from __future__ import annotations

from pathlib import Path

from publisher.formats.files.options import SnapshotOptions
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.source import Triggerless
from tests.support.change_table_files import write as write_changes
from tests.support.source_contract import (
    Sample,
    count_csv,
    count_json,
)

PEOPLE = [
    {"idu": idu, "fname": fname, "lname": lname, "photo": None}
    for idu, fname, lname in (
        ("1", "Ann", 'a "b"'),
        ("2", "Eve", None),
        ("2", "Eve", "twice, and different"),
        ("3", "Cy", ""),
        ("3", "Cy", ""),
        (None, "nobody", None),
    )
]
COMPARED = TriggerlessOptions(tables=("usr",), key={"usr": ("idu",)})
NO_HISTORY = frozenset({"event_time", "perpetrator", "transaction", "old"})


def people(path: Path) -> Path:
    return write_changes(path, [dict(row) for row in PEOPLE])


SAMPLES = tuple(
    Sample(
        f"people{suffix}",
        Triggerless(COMPARED, SnapshotOptions(block_size=64)),
        people,
        6,
        count,
        NO_HISTORY,
    )
    for suffix, count in ((".csv", count_csv), (".jsonl", count_json), (".parquet", None))
)

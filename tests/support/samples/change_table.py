"""Small change tables and streams of messages."""

from __future__ import annotations

import json
from pathlib import Path

from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.files.options import SnapshotOptions
from tests.support.change_table_files import HEADERS
from tests.support.change_table_files import record as change
from tests.support.change_table_files import seq as change_seq
from tests.support.change_table_files import write as write_changes
from tests.support.source_contract import (
    Sample,
    count_csv,
    count_json,
)

COLUMNS = (*HEADERS, "idu", "fname", "lname", "photo")
CHANGES = [
    {name: row.get(name) for name in COLUMNS}
    for row in (
        change(1, "I", [0, 1, 2, 3], idu="1", fname="Ann", lname='a "b",\nc', photo="bbbb"),
        change(2, "U", [1], idu="1", fname="Eve"),
        change(3, "I", [0, 1, 2, 3], idu="2"),
        change(2, "B", idu="1", fname="Ann"),
        change(4, "U", [0, 1], idu="4", fname="Eve"),
        change(5, "U", [0], idu="9"),
        change(6, "L", idu="9"),
        change(4, "B", idu="1", fname="Eve"),
        change(7, "D", [0], idu="2") | {"header__change_seq": "7"},
        change(8, "D", [0], idu="2"),
    )
]
CHANGE_TABLE = ChangeTableOptions(
    source_table="indirect.usr", binary_text="hex", mask_order="msb", header_columns=7, pair_wait=0
)
"""Rows without partner wait for nothing: a first run reads what a replay does."""
NO_USER = frozenset({"perpetrator"})
SMALL_BLOCKS = SnapshotOptions(block_size=256)
"""Blocks of a few records, which break records, too."""


IMAGE = {"idu": 1, "fname": "Ann", "lname": None, "photo": None}
MESSAGES = [
    ("INSERT", 1, IMAGE, None, {}),
    ("UPDATE", 2, IMAGE | {"fname": "Eve"}, IMAGE, {"changeMask": "02"}),
    ("UPDATE", 3, IMAGE | {"idu": 2}, IMAGE, {"changeMask": "01"}),
    ("UPDATE", 4, IMAGE, None, {"changeMask": "80"}),
    ("REFRESH", None, IMAGE, None, {}),
    ("DELETE", 5, None, IMAGE | {"idu": 2}, {}),
]


def messages(path: Path) -> Path:
    lines = []
    for operation, number, data, before, masks in MESSAGES:
        headers = {
            "operation": operation,
            "changeSequence": None if number is None else change_seq(number),
            "timestamp": "2023-03-21T21:34:19.511",
            "transactionId": "0A",
            "schema": "indirect",
            "table": "usr",
            **masks,
        }
        lines.append(json.dumps({"data": data, "beforeData": before, "headers": headers}) + "\n")
    path.write_text("".join(lines))
    return path


SAMPLES = (
    *(
        Sample(
            f"changes{suffix}",
            ChangeTable(CHANGE_TABLE, SMALL_BLOCKS),
            lambda path: write_changes(path, CHANGES),
            10,
            count,
            NO_USER,
        )
        for suffix, count in ((".csv", count_csv), (".jsonl", count_json), (".parquet", None))
    ),
    Sample(
        "messages.jsonl",
        ChangeTable(ChangeTableOptions(layout="messages", mask_order="msb"), SMALL_BLOCKS),
        messages,
        6,
        count_json,
        NO_USER,
    ),
)

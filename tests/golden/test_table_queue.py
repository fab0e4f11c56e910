"""Samples typed by hand (``table_queue/*.hex``) and their decoded elements."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.stories import typed_bytes
from tests.support.table_queue_files import OPTIONS, line, read, text_file

HERE = Path(__file__).parent / "table_queue"
QUEUE = [
    (1, 1, "$$$SYSRL", 0),
    (2, 1, "$$$ATTRI", 0),
    (3, 1, "$$$USR", 1),
    (4, 12, "ЛЮДИ", 1),
    (5, -2, "A" * 66, 0),
]


def short(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    assert not [row for row in rows if row["problem"]]
    return [(row["ordinal"], row["owner"], row["table"], row["updated"]) for row in rows]


@pytest.mark.parametrize("splits", [1, 3])
def test_bare_records_are_one_sweep(tmp_path: Path, splits: int) -> None:
    data = typed_bytes(HERE / "queue.hex")
    assert len(data) == 5 * 72
    path = tmp_path / "queue.raw"
    path.write_bytes(data)
    rows = read(path, splits=splits)
    assert short(rows) == QUEUE
    assert {row["sweep"] for row in rows} == {str(path)}
    assert [row["row"] for row in rows] == [0, 72, 144, 216, 288]
    assert {row["time"] for row in rows} == {None}


def test_json_lines_hold_the_same(tmp_path: Path) -> None:
    data = typed_bytes(HERE / "queue.hex")
    records = [data[at : at + 72].hex(" ") for at in range(0, len(data), 72)]
    lines = [line(ordinal=n, record=record) for n, record in enumerate(records, 1)]
    lines.append(line(ordinal=6, completion="EORR", code=1205, record=...))
    *rows, last = read(text_file(tmp_path / "queue.jsonl", lines))
    assert short(rows) == QUEUE
    assert {(row["sweep"], row["node"], row["time"]) for row in rows} == {
        ("1", "HR", 1_777_881_600_000_000)
    }
    assert (last["completion"], last["code"], last["table"], last["row"]) == ("EORR", 1205, None, 6)


@pytest.mark.parametrize("splits", [1, 2])
def test_a_bulk_file(tmp_path: Path, splits: int) -> None:
    path = tmp_path / "queue.dirr"
    path.write_bytes(typed_bytes(HERE / "bulk.hex"))
    first, second = read(path, OPTIONS, splits)
    assert first == {
        "file": str(path),
        "row": 64,
        "sweep": "7",
        "time": 1_000_000,
        "node": "HR",
        "ordinal": 4,
        "completion": "NORMAL",
        "code": 0,
        "system_error": None,
        "owner": 12,
        "table": "A" + "Ж" * 32 + "\ufffd",
        "updated": 1,
        "warning": "cut",
        "problem": None,
        "detail": None,
        "raw": None,
    }
    assert second == first | {
        "row": 168,
        "time": 2_000_000,
        "ordinal": 5,
        "completion": "EORR",
        "code": 1205,
        "system_error": 2,
        "owner": None,
        "table": None,
        "updated": None,
        "warning": None,
    }

"""Recordings of the table queue with damage anywhere: undamaged calls are read as before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from publisher.errors import FileRefusedError
from publisher.formats.table_queue.bulk_calls import HEADER_BYTES
from publisher.formats.table_queue.json_calls import json_line
from publisher.formats.table_queue.reading import sample_splits
from tests.support.bulk_calls import BulkFile
from tests.support.table_queue_files import OPTIONS, call, element, read

HEADER = BulkFile(72, "HR", "CP866")
CALLS = [
    call(n, element(f"T{n}", n, n % 2), code_page="CP866", node="HR", code=0) for n in range(1, 31)
]
LINES = [f"{json_line(each)}\n".encode() for each in CALLS]
PARTS = {
    "a.jsonl": (b"", LINES),
    "a.dirr": (HEADER.build(), [HEADER.build_call(each) for each in CALLS]),
    "a.raw": (b"", [each.record or b"" for each in CALLS]),
}


def rows_by_place(path: Path, head: bytes, parts: list[bytes]) -> list[dict[str, Any]]:
    path.write_bytes(head + b"".join(parts))
    return sorted(read(path), key=lambda row: int(row["row"]))


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("seed", range(20))
def test_damage_affects_no_other_call(tmp_path: Path, name: str, seed: int) -> None:
    head, parts = PARTS[name]
    whole = rows_by_place(tmp_path / name, head, parts)
    draw = random.Random(seed)
    hurt = set(draw.sample(range(len(parts)), 5))
    damaged = list(parts)
    for number in hurt:
        part = bytearray(parts[number])
        for _ in range(draw.randint(1, 8)):
            part[draw.randrange(len(part) - 1)] = draw.choice([0, 0x20, 0x22, 0x7B, 0x80, 0xFF])
        damaged[number] = bytes(part)
    found = rows_by_place(tmp_path / name, head, damaged)
    assert len(found) == len(whole) == len(CALLS)
    for number, (row, before) in enumerate(zip(found, whole, strict=True)):
        assert number in hurt or row == before
        assert row["problem"] is None or row["detail"]


def test_a_line_that_was_truncated_affects_one_call(tmp_path: Path) -> None:
    head, parts = PARTS["a.jsonl"]
    whole = rows_by_place(tmp_path / "a.jsonl", head, parts)
    *good, cut = rows_by_place(tmp_path / "a.jsonl", head, [*parts[:-1], parts[-1][:-7]])
    assert good == whole[:-1]
    assert (cut["problem"], cut["row"]) == ("json", len(parts))


@pytest.mark.parametrize("name", ["a.dirr", "a.raw"])
def test_a_binary_file_that_was_truncated_is_refused(tmp_path: Path, name: str) -> None:
    head, parts = PARTS[name]
    data = head + b"".join(parts)
    start = len(data) - len(parts[-1])
    for stop in range(start + 1, len(data) - 1, 7):
        (tmp_path / name).write_bytes(data[:stop])
        with pytest.raises(
            FileRefusedError, match=f"the last call at byte {start} has {stop - start} of"
        ):
            read(tmp_path / name)
        splits = sample_splits([tmp_path / name], OPTIONS, 1, may_grow=True)
        assert sum(split.size for split in splits) == start - len(head)


def test_headers_are_64_bytes() -> None:
    assert len(PARTS["a.dirr"][0]) == HEADER_BYTES == 64

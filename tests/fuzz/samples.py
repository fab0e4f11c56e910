"""Samples of the table queue: no changes, but files of calls that are read with the same promises."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from publisher.formats.files.options import SnapshotOptions
from publisher.formats.table_queue.bulk_calls import HEADER_BYTES
from publisher.formats.table_queue.calls import SAMPLE_SCHEMA, Call
from publisher.formats.table_queue.json_calls import json_line
from publisher.formats.table_queue.layout import BULK_CALL
from publisher.formats.table_queue.reading import read_samples, sample_files, sample_splits
from publisher.model.change import Outcome
from tests.fuzz.form import Content, Form, Framing, MadeFile, Piece, Read, Reader
from tests.fuzz.reading import ADVICE, PromiseError, measure_peak
from tests.support.bulk_calls import BulkFile
from tests.support.table_queue_files import OPTIONS, call, element

_NAMES = ("PERSON", "DEPT", "СОТРУДНИКИ", "A" * 66, "$$$SYSRL")
_READING = SnapshotOptions(block_size=4096, max_record=100_000)
_HEADER = BulkFile(len(element("X")), node="HR", code_page="CP866")
_STRIDE = _HEADER.stride
_WORDS = ((0, 8), (8, 8), (16, 4), (28, 2), (30, 1), (31, 1))


def _read(count: Callable[[bytes], int]) -> Reader:
    """Reads as tasks do; ``count`` says how many calls there are, by rules of its own."""

    def read(path: Path, wanted: int) -> Read:
        with measure_peak():
            splits = sample_splits(sample_files([path]), OPTIONS, wanted, _READING)
            batches = [
                batch for split in splits for batch in read_samples(split, OPTIONS, _READING)
            ]
        rows: list[Content] = []
        for batch in batches:
            if not batch.schema.equals(SAMPLE_SCHEMA):
                raise PromiseError("a batch has another schema")
            batch.validate(full=True)
            rows += map(_as_record, batch.to_pylist())
        return Read(rows, count(path.read_bytes()))

    return read


def _as_record(row: Content) -> Content:
    rejected = Outcome.REJECTED.value if row["problem"] else None
    return row | {"outcome": rejected, "reason": row["problem"], "records": 1, "key": None}


def _check(read: Read) -> None:
    if len(read.rows) != read.framed:
        raise PromiseError(f"{read.framed} calls are in the file, {len(read.rows)} were read")
    for row in read.rows:
        if row["problem"] is None and row["sweep"] is None:
            raise PromiseError(f"no sweep: {row}")
        if row["problem"] and not (row["detail"] and ADVICE.search(row["detail"])):
            raise PromiseError(f"a problem gives no advice: {row}")


def _calls(chance: random.Random, count: int) -> list[Call]:
    samples = []
    for number in range(count):
        name = chance.choice(_NAMES)
        record = element(name, chance.randrange(1, 1000), chance.randrange(2))
        end = chance.random() < 0.1
        samples.append(call(number + 1, None if end else record, sweep=chance.randrange(1, 9)))
    return samples


def _in_bulk(chance: random.Random, count: int) -> MadeFile:
    calls = (replace(each, node="HR") for each in _calls(chance, count))
    return MadeFile(
        _HEADER.build(), [Piece(_HEADER.build_call(each), words=_WORDS) for each in calls]
    )


def _bare(chance: random.Random, count: int) -> MadeFile:
    records = (element(chance.choice(_NAMES), chance.randrange(1, 1000)) for _ in range(count))
    return MadeFile(b"", [Piece(record, words=((0, 4), (70, 2))) for record in records])


def _in_lines(chance: random.Random, count: int) -> MadeFile:
    return MadeFile(
        b"", [Piece(json_line(each).encode() + b"\n") for each in _calls(chance, count)]
    )


def _count_lines(data: bytes) -> int:
    return sum(1 for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip())


assert BULK_CALL.sizeof() + _HEADER.record_bytes == _STRIDE
assert json.loads(json_line(call(1)))["completion"] == "EORR"

FORMS = [
    Form(
        name="table-queue bulk",
        format="table-queue",
        file="samples.dirr",
        read=_read(lambda data: -(-(len(data) - HEADER_BYTES) // _STRIDE)),
        make=_in_bulk,
        framing=Framing.STRIDE,
        stride=_STRIDE,
        address="offset",
        check=_check,
    ),
    Form(
        name="table-queue raw",
        format="table-queue",
        file="samples.raw",
        read=_read(lambda data: -(-len(data) // _HEADER.record_bytes)),
        make=_bare,
        framing=Framing.STRIDE,
        stride=_HEADER.record_bytes,
        address="offset",
        unseen=frozenset({"ordinal"}),
        check=_check,
    ),
    Form(
        name="table-queue jsonl",
        format="table-queue",
        file="samples.jsonl",
        read=_read(_count_lines),
        make=_in_lines,
        framing=Framing.LINES,
        check=_check,
    ),
]

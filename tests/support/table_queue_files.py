"""Samples of a table queue as tests write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from publisher.formats.files.options import SnapshotOptions
from publisher.formats.table_queue.calls import SAMPLE_SCHEMA, Call
from publisher.formats.table_queue.layout import dirr_out
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.formats.table_queue.reading import read_samples, sample_files, sample_splits

OPTIONS = TableQueueOptions(code_page="CP866", eorr=1205, smallbufkor=1206)
"""The numbers are made up: no page prints them."""
START = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)


def element(
    name: str | bytes, owner: int = 5, updated: int = 0, options: TableQueueOptions = OPTIONS
) -> bytes:
    field = name.encode("cp866") if isinstance(name, str) else name
    built: bytes = dirr_out(options).build(
        {
            "owner": owner,
            "table": field.ljust(options.identifier_length, b" "),
            "updated": updated,
        }
    )
    return built


def call(ordinal: int, record: bytes | None = None, sweep: int = 1, **more: Any) -> Call:
    name = "EORR" if record is None else "NORMAL"
    time = START + timedelta(seconds=10 * sweep, milliseconds=ordinal)
    usual = Call(sweep=sweep, time=time, ordinal=ordinal, completion=name, record=record)
    return replace(usual, **more)


def line(**fields: Any) -> str:
    """A line of JSON of a valid call except for the given fields; ``...`` omits a field."""
    valid = {
        "sweep": 1,
        "time": "2026-05-04T08:00:00Z",
        "node": "HR",
        "ordinal": 4,
        "completion": "NORMAL",
        "code": 0,
        "record": element("PERSON").hex(),
    }
    return json.dumps({name: value for name, value in (valid | fields).items() if value != ...})


def read(
    path: Path,
    options: TableQueueOptions = OPTIONS,
    splits: int = 1,
    reading: SnapshotOptions | None = None,
) -> list[dict[str, Any]]:
    """Reads the rows of a file."""
    reading = reading or SnapshotOptions(max_record=1 << 20)
    rows: list[dict[str, Any]] = []
    for split in sample_splits(sample_files([path]), options, splits, reading):
        for batch in read_samples(split, options, reading):
            assert batch.schema == SAMPLE_SCHEMA
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


def text_file(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{each}\n" for each in lines), "utf-8")
    return path

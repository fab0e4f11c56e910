"""Finds files of samples, divides them into splits, and reads splits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from publisher.errors import FatalError, FileRefusedError, UsageError
from publisher.formats.files import file_splits
from publisher.formats.files.file_names import list_files
from publisher.formats.files.file_splits import Split, TextRange
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.table_queue.bulk_calls import (
    HEADER_BYTES,
    read_bulk_blocks,
    read_header,
    read_raw_blocks,
)
from publisher.formats.table_queue.calls import SampleBlock
from publisher.formats.table_queue.decoding import SampleDecoder
from publisher.formats.table_queue.json_calls import read_json_blocks
from publisher.formats.table_queue.layout import dirr_out
from publisher.formats.table_queue.options import TableQueueOptions

BinaryForm = Literal["bulk", "raw"]
Form = Literal[BinaryForm, "jsonl"]

SUFFIXES: dict[str, Form] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".dirr": "bulk",
    ".raw": "raw",
}
"""Form of a file by the suffix of its name; JSON lines may be compressed (``.gz``)."""

_TEXT = SnapshotOptions(max_record=1 << 20)


@dataclass(frozen=True, slots=True)
class CallRange:
    """Bytes of a binary file, which begin and end with whole calls."""

    form: BinaryForm
    start: int
    stop: int
    """Offset after the last byte."""


SampleSplit = Split[TextRange | CallRange]


def form_of(path: Path) -> Form | None:
    """Returns the form of a file by its name; ``None`` if the name does not show it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        return "jsonl" if SUFFIXES.get("".join(suffixes[-2:-1])) == "jsonl" else None
    return SUFFIXES.get("".join(suffixes[-1:]))


def sample_files(
    paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
) -> list[Path]:
    """Finds the files that paths name, each once, in the order of the paths; files of a directory by name.

    Raises ``UsageError`` if there are none (unless ``may_be_none``), or if the name of a file does not show
    its form.
    """
    files = list_files(
        paths,
        lambda path: form_of(path) is not None,
        f"the name does not show the form of the samples; use {', '.join(SUFFIXES)}"
        " (JSON lines also with .gz)",
    )
    if not files and not may_be_none:
        raise UsageError(f"no samples in {', '.join(map(str, paths))}; use {', '.join(SUFFIXES)}")
    return list(dict.fromkeys(files))


def sample_splits(
    files: Sequence[Path],
    options: TableQueueOptions,
    wanted: int,
    reading: SnapshotOptions = _TEXT,
    *,
    may_grow: bool = False,
) -> list[SampleSplit]:
    """Divides files into about ``wanted`` splits or more, in the order of the files.

    With ``may_grow``, the incomplete last call of a binary file is left out, because it is being written.

    Raises ``FatalError`` if a file does not have the form that its name says, or was truncated.
    """
    target = max(1, sum(path.stat().st_size for path in files) // max(1, wanted))
    return [
        split for path in files for split in _cut(path, options, target, reading, may_grow=may_grow)
    ]


def _cut(
    path: Path,
    options: TableQueueOptions,
    target: int,
    reading: SnapshotOptions,
    *,
    may_grow: bool,
) -> Iterator[SampleSplit]:
    length, form = path.stat().st_size, form_of(path)
    assert form is not None
    if form == "jsonl":
        yield file_splits.json_split(path, reading)
        return
    if not length:
        return
    start = HEADER_BYTES if form == "bulk" else 0
    stride = read_header(path).stride if form == "bulk" else dirr_out(options).sizeof()
    excess = (length - start) % stride
    if excess and not may_grow:
        raise FileRefusedError(
            str(path),
            f"the last call at byte {length - excess} has {excess} of {stride} bytes: the file was truncated,"
            " or long_bytes and identifier_length are wrong; record it again, or fix the settings",
        )
    step = -(-target // stride) * stride
    for at in range(start, length - excess, step):
        stop = min(at + step, length - excess)
        yield Split(str(path), stop - at, length, CallRange(form, at, stop))


def read_samples(
    split: SampleSplit, options: TableQueueOptions, reading: SnapshotOptions = _TEXT
) -> Iterator[pa.RecordBatch]:
    """Reads batches of ``SAMPLE_SCHEMA`` with every call of the split.

    Raises ``FatalError`` if the file has become shorter or has another form than before.
    """
    if Path(split.path).stat().st_size < split.length:
        raise FatalError(f"{split.path} has become shorter while it was read; start again")
    decoder = SampleDecoder(options)
    for block in _blocks(split, decoder.record_bytes, reading):
        batch = decoder.batch(split.path, block)
        if batch.num_rows:
            yield batch


def _blocks(
    split: SampleSplit, record_bytes: int, reading: SnapshotOptions
) -> Iterator[SampleBlock]:
    path = Path(split.path)
    match split.payload:
        case CallRange(form, start, stop):
            if form == "bulk":
                return read_bulk_blocks(path, start, stop, read_header(path))
            return read_raw_blocks(path, start, stop, record_bytes)
        case TextRange() as lines:
            texts = file_splits.blocks(split.path, lines, reading)
            return read_json_blocks(texts, lines.first, reading.max_record, record_bytes)

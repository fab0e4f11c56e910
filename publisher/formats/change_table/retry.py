"""Corrected records of change tables as files; an UPDATE keeps its before image.

An UPDATE that was rejected after it was read is exported with its before image, because both records are one
change.  Pairs that were rejected as they were read are exported as two records.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from publisher.errors import FatalError, UsageError
from publisher.formats.change_table.layout import layout_of
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.pairs import relate_rows
from publisher.formats.change_table.rows import ChangeOperation, ChangeRows, rows_of
from publisher.formats.files import file_splits
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.files.recognise import dfm_of
from publisher.formats.retry import CorrectedRecord, RetryFiles, write_json_lines

BEFORE_IMAGE = "before image"
"""Name of the before image among the columns of an exported UPDATE."""


def find_description(path: Path) -> Path | None:
    """Returns the ``.dfm`` file of a file, if there is one."""
    dfm = dfm_of(path)
    return dfm if dfm.is_file() else None


def write_retry(
    options: ChangeTableOptions, records: Sequence[CorrectedRecord], folder: Path
) -> RetryFiles:
    """Writes the records, and copies the ``.dfm`` files of the files that had them.

    The place of a before image that was rejected as a record is that of its UPDATE."""
    with_images = [part for record in records for part in _with_before_image(record)]
    files = write_json_lines(with_images, folder, {}, f"{options.prefix}change_seq")
    for record, (path, _) in zip(with_images, files.places, strict=True):
        if record.file is not None and (dfm := find_description(Path(record.file))) is not None:
            shutil.copyfile(dfm, path.with_suffix(".dfm"))
    lines = {record.id: place for record, place in zip(with_images, files.places, strict=True)}
    updates: dict[tuple[Path, int], tuple[Path, int]] = {}
    if options.layout != "messages":
        for path in files.paths:
            pairs = _pairs_in(path, options, records[0].where)
            updates |= {(path, before): (path, update) for before, update in pairs}
    places = (lines[record.id] for record in records)
    return files._replace(places=tuple(updates.get(place, place) for place in places))


def _with_before_image(record: CorrectedRecord) -> Iterator[CorrectedRecord]:
    """Yields a record after its before image, if it has one."""
    if not isinstance(record.raw, dict) or BEFORE_IMAGE not in record.raw:
        yield record
        return
    image = record.raw[BEFORE_IMAGE]
    if image is not None:
        yield replace(record, id=f"{BEFORE_IMAGE} of {record.id}", raw=image)
    rest = {name: value for name, value in record.raw.items() if name != BEFORE_IMAGE}
    yield replace(record, raw=rest)


def _pairs_in(path: Path, options: ChangeTableOptions, where: str) -> Iterator[tuple[int, int]]:
    """Yields the lines of the before image and of the UPDATE of each pair of a written file."""
    reading = SnapshotOptions()
    try:
        layout = layout_of(path, options, reading)
        splits = file_splits.splits([path], layout.reading, layout.columns(), 1)
        chunks = [
            rows_of(frame, layout)
            for split in splits
            for frame in file_splits.frames(split, layout.reading, layout.columns())
        ]
    except FatalError as error:
        raise UsageError(f"{where}: {error.message}") from None
    for image, update in _pairs(chunks):
        yield int(image.numbers[0]), int(update.numbers[0])


def find_before_images(
    rows: Collection[int], read: Sequence[Callable[[], Iterable[ChangeRows]]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Finds the before images of UPDATEs of a file, by their numbers, with the names of columns.

    ``read`` reads files, the first of which has the UPDATEs.  The others are read only if one of them lacks
    its before image."""
    updates: dict[int, tuple[int, int]] = {}
    for chunk in read[0]():
        own = np.flatnonzero(chunk.operations == ChangeOperation.UPDATE).tolist()
        positions = list(_positions(chunk))
        updates |= {
            int(chunk.numbers[at]): positions[at] for at in own if chunk.numbers[at] in rows
        }
    wanted = set(updates.values())
    halves: list[ChangeRows] = []
    images: dict[int, dict[str, Any]] = {}
    for file, read_file in enumerate(read):
        for chunk in read_file():
            own = [
                place
                for place, position in enumerate(_positions(chunk))
                if position in wanted and place not in chunk.faults
            ]
            halves.append(
                replace(chunk.take(np.array(own, np.int64)), files=np.full(len(own), file))
            )
        images = {
            int(update.numbers[0]): image.batch.to_pylist()[0]
            for image, update in _pairs(halves)
            if update.files[0] == 0 and int(update.numbers[0]) in updates
        }
        if len(images) == len(updates):
            break
    yield from images.items()


def _positions(rows: ChangeRows) -> Iterator[tuple[int, int]]:
    return zip(rows.high.tolist(), rows.low.tolist(), strict=True)


def _pairs(chunks: Sequence[ChangeRows]) -> Iterator[tuple[ChangeRows, ChangeRows]]:
    """Yields each before image with its UPDATE."""
    chunks = [chunk.take(np.flatnonzero(chunk.placed)) for chunk in chunks]
    if not chunks:
        return
    related = relate_rows(chunks)
    for image in np.flatnonzero(related.is_image & (related.partner >= 0)).tolist():
        ((_, before),) = related.rows(np.array([image]))
        ((_, update),) = related.rows(related.partner[[image]])
        yield before, update

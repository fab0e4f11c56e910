"""Ranks of the events of an event log: places among the distinct usable record ids of a source.

A task that reads a split writes the sorted ids of the split to a file, and sends every lane a note with the
name of the file.  A lane converts ids to ranks when it plans.  A rank is the place of the id in the file of
its split, plus the number of ids in all splits before; files whose ranges of ids overlap are merged first.
Thus the input is read once, and ranks do not depend on how it is split.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import InternalError
from publisher.formats.columns.record_batches import Place, batch
from publisher.model.change import IDS, TALLY, Reason
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.model.sorted_ids import (
    IdFile,
    IdGatherer,
    Ids,
    ids_in,
    open_ids,
    sort_distinct,
    write_ids,
)

_RANK = RECORD_SCHEMA.get_field_index("rank")


def with_ids(
    records: Iterable[pa.RecordBatch], place: Place, folder: Path
) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split, then a note to each lane that names the file with their ids."""
    ids = IdGatherer(folder, f"{place.split:05d}-{secrets.token_hex(8)}")
    for records_batch in records:
        ids.add(usable_ids(records_batch))
        yield records_batch
    yield notes_of(place, ids.close())


def usable_ids(records: pa.RecordBatch) -> Ids:
    """Selects the record ids of changes, and of rejected and excluded records with the wanted status."""
    if records.column("outcome").null_count < records.num_rows:
        other_status = pc.equal(records.column("reason"), str(Reason.STATUS))
        is_ignored = pc.or_kleene(pc.equal(records.column("outcome"), TALLY), other_status)
        has_id = pc.equal(records.column("part"), "")
        records = records.filter(pc.and_not(has_id, pc.fill_null(is_ignored, False)))
    ids: Ids = records.column("high").to_numpy()
    return ids


def notes_of(place: Place, file: IdFile | None) -> pa.RecordBatch:
    """The notes on a split, one row for each lane.  Rank 0 sorts them before all changes of the source."""
    name, size, first, last = file or IdFile("", 0, 0, 0)
    return batch(
        place.lanes,
        source=place.source,
        lane=np.arange(place.lanes, dtype=np.int32),
        part="",
        rank=0,
        high=first,
        low=last,
        ordinal=0,
        split=place.split,
        row=size,
        records=0,
        outcome=IDS,
        raw=name,
    )


class _Range(NamedTuple):
    """The ids of one or several overlapping splits; ``before`` is the number of smaller ids."""

    first: int
    last: int
    size: int
    before: int
    path: Path

    def ranks(self, ids: Ids) -> Ids:
        """Ranks ids of the range.  Raises ``InternalError`` for an unknown id."""
        if self.last - self.first + 1 == self.size:  # without gaps
            places = ids - self.first
            unknown = ids[ids > self.last]
        else:
            range_ids = open_ids(self.path)
            places = np.searchsorted(range_ids, ids)
            unknown = ids[range_ids[np.minimum(places, self.size - 1)] != ids]
        if len(unknown):
            raise unknown_id(unknown[0])
        return places + (self.before + 1)


class SplitNotes:
    """The notes on all splits of one source, as they reach a lane."""

    def __init__(self, folder: Path, splits: Iterable[int]) -> None:
        """``splits`` are the numbers of all splits of the source."""
        self.folder = folder
        self.files: list[IdFile] = []
        self._missing = set(splits)

    def add_notes(self, notes: pa.RecordBatch) -> None:
        """Adds the notes of splits.  Raises ``InternalError`` for a second note of a split."""
        columns = ("split", "raw", "row", "high", "low")
        for split, *entry in zip(
            *(notes.column(name).to_pylist() for name in columns), strict=True
        ):
            if split not in self._missing:
                raise InternalError(f"the record ids of split {split} were counted twice")
            self._missing.remove(split)
            file = IdFile(*entry)
            if file.size:
                self.files.append(file)

    def check(self) -> None:
        """Raises ``InternalError`` if the note of a split is missing."""
        if self._missing:
            splits = ", ".join(map(str, sorted(self._missing)))
            raise InternalError(f"the record ids of split {splits} were not counted")


class LaneRanks(SplitNotes):
    """Ranks the changes of one source in one lane."""

    def __init__(self, folder: Path, splits: Iterable[int]) -> None:
        """See ``SplitNotes``."""
        super().__init__(folder, splits)
        self._ranges: list[_Range] = []

    def rank(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Sets the ranks of changes, which are in the order of their ids."""
        ids: Ids = changes.column("high").to_numpy()
        ranges = self._all_ranges()
        firsts = np.array([ids_range.first for ids_range in ranges], np.int64)
        at = np.searchsorted(firsts, ids, "right") - 1
        if len(ids) and at.min() < 0:
            raise unknown_id(ids.min())
        ranks = np.empty(len(ids), np.int64)
        for place in sort_distinct(at).tolist():
            in_range = at == place
            ranks[in_range] = ranges[place].ranks(ids[in_range])
        return changes.set_column(_RANK, RECORD_SCHEMA.field(_RANK), pa.array(ranks))

    def _all_ranges(self) -> list[_Range]:
        if not self._ranges:
            self.check()
            before = 0
            for files in _overlapping(self.files):
                self._ranges.append(self._range(files, before))
                before += self._ranges[-1].size
        return self._ranges

    def _range(self, files: list[IdFile], before: int) -> _Range:
        if len(files) == 1:
            (file,) = files
            return _Range(file.first, file.last, file.size, before, self.folder / file.name)
        path = self._merge(files)
        size = path.stat().st_size // np.dtype(np.int64).itemsize
        return _Range(files[0].first, max(file.last for file in files), size, before, path)

    def _merge(self, files: list[IdFile]) -> Path:
        """Merges the ids of some files into one file, unless another lane has done it.

        Several lanes may merge at the same time; they write the same content."""
        names = "\n".join(file.name for file in files)
        digest = hashlib.sha256(names.encode()).hexdigest()
        path = self.folder / f"merged-{digest[:32]}"
        if not path.exists():
            unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
            ids = sort_distinct(np.concatenate([ids_in(file, self.folder) for file in files]))
            write_ids(ids, unfinished)
            unfinished.replace(path)
        return path


def unknown_id(record_id: int) -> InternalError:
    """The error of an event that no split has noted."""
    return InternalError(f"record_id {record_id} was not gathered when its split was read")


def _overlapping(files: Iterable[IdFile]) -> Iterator[list[IdFile]]:
    """Groups files by ascending ids; ranges of ids overlap only within a group."""
    group: list[IdFile] = []
    last = 0
    for file in sorted(files, key=lambda file: (file.first, file.last, file.name)):
        if group and file.first > last:
            yield group
            group = []
        group.append(file)
        last = max(last, file.last)
    if group:
        yield group

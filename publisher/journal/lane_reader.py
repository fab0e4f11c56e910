"""Reads one lane of a journal: decisions by position or key, documents, look-ups."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.journal.key_index import may_have_keys
from publisher.journal.lane_result import LaneNames
from publisher.journal.lookups import LookupAnswer
from publisher.journal.manifest import Journal, Manifest
from publisher.journal.unpacked_runs import FilesInMemory
from publisher.model.change import Object, Outcome, Position, Reason

_ROWS_AT_ONCE = 1_000
_FEW = 100
"""Maximum number of rows that are converted together for a search."""


@dataclass(frozen=True, slots=True)
class DecidedRecord:
    """A record of the journal with its decision; ``row`` is its number in the lane."""

    lane: int
    row: int
    source: int
    position: Position
    split: int
    record: int
    object: Object | None
    event_type: int | None
    columns: tuple[str, ...]
    event_time: int | None
    perpetrator: str | None
    outcome: Outcome
    reason: Reason | None
    by: int
    document: int
    detail: str | None
    raw: str | None
    is_view: bool
    logged_table: str | None
    logged_column: str | None
    children: tuple[str | None, ...]
    """The child table of each column; empty if no column belongs to one."""
    fingerprint: int | None


@dataclass(frozen=True, slots=True)
class PublishedDocument:
    """A document of the journal: its entry in the index, and its text."""

    number: int
    operation: str
    association: str
    new_association: str | None
    """The association after a change of the key."""
    event_id: str
    poll: int
    records: str
    part: str
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class JournalLookup:
    """A look-up of the journal: the kind of answer, and the row as a mapping."""

    poll: int
    answer: LookupAnswer
    row: dict[str, str | None] | None
    detail: str | None


Entry = dict[str, Any]
"""A row by the names of its columns."""
Wanted = Mapping[str, Collection[object]]
"""The values that a row may have, by the names of columns."""


class _LaneTable(Protocol):
    """A table of one lane; rows are numbered from 0."""

    def find(self, wanted: Wanted) -> Iterator[tuple[int, Entry]]:
        """Yields the rows that have one of the values in each of the columns, with their numbers."""

    def entry(self, row: int) -> Entry:
        """Reads a row by its number."""

    def entries(self) -> Iterator[Entry]:
        """Reads all rows in order."""


class _FewRows:
    """A small table in memory, without Arrow, which takes longer for each search."""

    def __init__(self, rows: pa.Table) -> None:
        self._entries: list[Entry] = rows.to_pylist()

    def find(self, wanted: Wanted) -> Iterator[tuple[int, Entry]]:
        for number, entry in enumerate(self._entries):
            if all(entry[name] in values for name, values in wanted.items()):
                yield number, entry

    def entry(self, row: int) -> Entry:
        if row >= len(self._entries):
            raise _unknown_row(row)
        return self._entries[row]

    def entries(self) -> Iterator[Entry]:
        return iter(self._entries)


class _TableInMemory:
    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def find(self, wanted: Wanted) -> Iterator[tuple[int, Entry]]:
        return _search(self._rows, 0, wanted)

    def entry(self, row: int) -> Entry:
        if row >= self._rows.num_rows:
            raise _unknown_row(row)
        return _entry(self._rows, row)

    def entries(self) -> Iterator[Entry]:
        return _entries(self._rows)


class _TableInFile:
    """A table in a file, whose row groups are read as far as they may have the wanted rows."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self._last: tuple[int, pa.Table] | None = None
        """The group of the last single row, and the number of its first row."""

    def find(self, wanted: Wanted) -> Iterator[tuple[int, Entry]]:
        for group, first in self._places():
            if self._may_have(group, wanted):
                yield from _search(self._read(group), first, wanted)

    def entry(self, row: int) -> Entry:
        first, rows = self._group_of(row)
        return _entry(rows, row - first)

    def entries(self) -> Iterator[Entry]:
        for group, _ in self._places():
            yield from _entries(self._read(group))

    def _group_of(self, row: int) -> tuple[int, pa.Table]:
        if self._last is not None and 0 <= row - self._last[0] < self._last[1].num_rows:
            return self._last
        for group, first in self._places():
            if row < first + self._file.metadata.row_group(group).num_rows:
                self._last = first, self._read(group)
                return self._last
        raise _unknown_row(row)

    def _read(self, group: int, columns: Sequence[str] | None = None) -> pa.Table:
        return self._file.read_row_group(group, columns=columns, use_threads=False)

    def _places(self) -> Iterator[tuple[int, int]]:
        """Yields the row groups, each with the number of its first row."""
        first = 0
        for group in range(self._file.metadata.num_row_groups):
            yield group, first
            first += self._file.metadata.row_group(group).num_rows

    def _may_have(self, group: int, wanted: Wanted) -> bool:
        """Returns whether a group may have wanted rows, by the statistics of ``high`` or by its keys.

        A single group is not searched: the index of the lane has the keys."""
        if "high" in wanted:
            return self._may_contain(group, wanted["high"])
        if "key" in wanted and self._file.metadata.num_row_groups > 1:
            keys = self._read(group, ["key"])["key"]
            return bool(pc.any(_mask(keys, wanted["key"])).as_py())
        return True

    def _may_contain(self, group: int, highs: Collection[object]) -> bool:
        metadata = self._file.metadata
        paths = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
        if "high" not in paths:
            raise FatalError("a decisions file has no column high: publish again")
        limits = metadata.row_group(group).column(paths.index("high")).statistics
        return limits is None or any(limits.min <= high <= limits.max for high in highs)


def _search(rows: pa.Table, first: int, wanted: Wanted) -> Iterator[tuple[int, Entry]]:
    """Searches rows like ``_LaneTable.find``; ``first`` is the number of the first one."""
    masks = (_mask(rows[name], values) for name, values in wanted.items())
    places = pc.indices_nonzero(reduce(pc.and_, masks))
    entries = rows.take(places).to_pylist()
    yield from zip((first + place for place in places.to_pylist()), entries, strict=True)


def _entry(rows: pa.Table, row: int) -> Entry:
    entry: Entry = rows.slice(row, 1).to_pylist()[0]
    return entry


def _entries(rows: pa.Table) -> Iterator[Entry]:
    for batch in rows.to_batches(_ROWS_AT_ONCE):
        yield from batch.to_pylist()


def _mask(column: pa.ChunkedArray, values: Collection[object]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array([*values], column.type))


def _unknown_row(row: int) -> FatalError:
    return FatalError(f"the journal has no row {row}: it is damaged, publish again")


class LaneReader:
    """Reads the files of one lane.

    Raises:
        FatalError: A file of the journal is missing or damaged.
    """

    def __init__(
        self,
        root: Path,
        documents: Path,
        lane: int,
        files: FilesInMemory | None = None,
        *,
        has_lookups: bool = True,
    ) -> None:
        """For ``files`` see ``Journal.in_memory``, for ``has_lookups`` ``Manifest.has_lookups``."""
        self._has_lookups = has_lookups
        self._root = root
        self._documents = documents
        self._names = LaneNames(lane)
        self._files = files
        self.lane = lane

    def by_position(self, source: int, position: Position) -> list[DecidedRecord]:
        """Finds the records at a position: several if a record is repeated or became two changes."""
        return self._find(_at(source, position) | {"high": {position.high}})

    def by_low(self, source: int, position: Position) -> list[DecidedRecord]:
        """Finds the records with the position's ``part`` and ``low``, and any ``high``."""
        return self._find(_at(source, position))

    def by_key(self, keys: frozenset[str], table_name: str | None = None) -> list[DecidedRecord]:
        """Finds the records of objects with one of these key texts, of all tables or one."""
        if self._files is None and not may_have_keys(self._root / self._names.keys, keys):
            return []
        wanted: dict[str, Collection[object]] = {"key": keys}
        if table_name is not None:
            wanted["table"] = {table_name}
        return self._find(wanted)

    def by_document(self, number: int) -> list[DecidedRecord]:
        """Finds the records that a document publishes."""
        return self._find({"document": {number}})

    def _find(self, wanted: Wanted) -> list[DecidedRecord]:
        return [_record(self.lane, row, entry) for row, entry in self._decisions.find(wanted)]

    def row(self, number: int) -> DecidedRecord:
        """Reads the record with this number in the lane."""
        return _record(self.lane, number, self._decisions.entry(number))

    def document(self, number: int) -> PublishedDocument:
        """Reads a document by its number in the lane."""
        return self._document(number, self._index.entry(number))

    def documents(self) -> Iterator[PublishedDocument]:
        """Reads all documents of the lane in order."""
        for number, entry in enumerate(self._index.entries()):
            yield self._document(number, entry)

    def decisions(self) -> Iterator[DecidedRecord]:
        """Reads all records of the lane in the order of arrival."""
        for number, entry in enumerate(self._decisions.entries()):
            yield _record(self.lane, number, entry)

    def _document(self, number: int, entry: dict[str, Any]) -> PublishedDocument:
        text = entry.get("text")
        return PublishedDocument(
            number=number,
            operation=entry["operation"],
            association=entry["association"],
            new_association=entry["new_association"],
            event_id=entry["event_id"],
            poll=entry["poll"],
            records=entry["records"],
            part=self._names.part,
            offset=entry["offset"],
            text=self._read_text(entry["offset"], entry["length"]) if text is None else text,
        )

    def _read_text(self, offset: int, length: int) -> str:
        path = self._documents / self._names.part
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise FatalError(f"{path} cannot be read ({error}): publish again") from error

    def lookups(self, source: int, obj: Object) -> list[JournalLookup]:
        """Reads the look-ups of an object in their order."""
        wanted = {"source": source, **obj._asdict()}
        return [
            JournalLookup(
                poll=entry["poll"],
                answer=LookupAnswer(entry["answer"]),
                row=json.loads(entry["text"]) if entry["answer"] == LookupAnswer.ROW else None,
                detail=entry["text"] if entry["answer"] != LookupAnswer.ROW else None,
            )
            for entry in self._lookups_of(obj.key)
            if all(entry[name] == value for name, value in wanted.items())
        ]

    def _lookups_of(self, key: str) -> Iterator[Entry]:
        if self._has_lookups:
            found = self._open(self._names.lookups).find({"key": {key}})
            yield from (entry for _, entry in found)

    @cached_property
    def _decisions(self) -> _LaneTable:
        return self._open(self._names.decisions)

    @cached_property
    def _index(self) -> _LaneTable:
        return self._open(self._names.index)

    def _open(self, name: str) -> _LaneTable:
        if self._files is not None:
            rows = self._files.tables[name]
            return _FewRows(rows) if rows.num_rows <= _FEW else _TableInMemory(rows)
        try:
            return _TableInFile(pq.ParquetFile(self._root / name))
        except (OSError, pa.ArrowInvalid) as error:
            raise FatalError(
                f"{self._root / name} of the journal cannot be read ({error}): publish again"
            ) from error


def _at(source: int, position: Position) -> dict[str, Collection[object]]:
    parts = {position.part} if position.part else {"", None}
    return {"source": {source}, "part": parts, "low": {position.low}}


def readers_of(journal: Journal, manifest: Manifest) -> list[LaneReader]:
    """The readers of all lanes of a run."""
    root, documents, files = journal.root, journal.documents(manifest), journal.in_memory
    return [
        LaneReader(root, documents, lane, files, has_lookups=manifest.has_lookups(lane))
        for lane in range(manifest.lanes)
    ]


def _record(lane: int, row: int, entry: dict[str, object]) -> DecidedRecord:
    values: dict[str, Any] = dict(entry)
    position = Position(*(values[name] for name in Position._fields))
    obj = None
    if values["key"] is not None:
        obj = Object(values["schema"], values["table"], values["key"])
    copied = (
        *("source", "split", "event_type", "event_time", "perpetrator", "by", "document"),
        *("logged_table", "logged_column", "fingerprint"),
    )
    return DecidedRecord(
        lane=lane,
        row=row,
        position=position._replace(part=position.part or ""),
        record=values["row"],
        object=obj,
        columns=tuple(values["columns"] or ()),
        outcome=Outcome(values["outcome"]),
        reason=Reason(values["reason"]) if values["reason"] is not None else None,
        detail=values["detail"],
        raw=values["raw"],
        is_view=bool(values["is_view"]),
        children=tuple(values["children"] or ()),
        **{name: values[name] for name in copied},
    )

"""Reads one lane of a ledger: decisions by position or key, documents, look-ups."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.ledger.lane_result import LaneNames
from publisher.ledger.lookups import LookupAnswer
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.ledger.tables import LaneTables, explain_damage
from publisher.model.change import Object, Outcome, Position, Reason

_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class DecidedRecord:
    """A record of the ledger with its decision; ``row`` is its number in the lane."""

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
    """A document of the ledger: its entry in the index, and its text."""

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
class RecordedLookup:
    """A look-up of the ledger: the kind of answer, and the row as a mapping."""

    poll: int
    answer: LookupAnswer
    row: dict[str, str | None] | None
    detail: str | None


Entry = dict[str, Any]
"""A row by the names of its columns."""
Wanted = Mapping[str, Collection[object]]
"""The values that a row may have, by the names of columns."""


class _LaneTable:
    """A table of one lane, in memory or in a file; rows are numbered from 0."""

    def __init__(self, rows: pa.Table | None, path: Path) -> None:
        self._rows = rows
        self._file = pq.ParquetFile(path) if rows is None else None
        self._last: tuple[int, pa.Table] | None = None
        """The group of the last single row, and the number of its first row."""

    def find(self, wanted: Wanted) -> Iterator[tuple[int, Entry]]:
        """Yields the rows that have one of the values in each of the columns, with their numbers."""
        for group, first, _ in self._groups():
            columns = self._read(group, list(wanted))
            masks = (_mask(columns[name], values) for name, values in wanted.items())
            places = pc.indices_nonzero(reduce(pc.and_, masks))
            if len(places):
                entries = self._read(group).take(places).to_pylist()
                yield from zip((first + n for n in places.to_pylist()), entries, strict=True)

    def entry(self, row: int) -> Entry:
        """Reads a row by its number."""
        if self._last is None or not 0 <= row - self._last[0] < self._last[1].num_rows:
            for group, first, count in self._groups():
                if first <= row < first + count:
                    self._last = first, self._read(group)
                    break
            else:
                raise FatalError(f"the ledger has no row {row}: it is damaged, publish again")
        first, rows = self._last
        return _entry(rows, row - first)

    def entries(self) -> Iterator[Entry]:
        """Reads all rows in order."""
        for group, _, _ in self._groups():
            for batch in self._read(group).to_batches(_ROWS_AT_ONCE):
                yield from batch.to_pylist()

    def _groups(self) -> Iterator[tuple[int, int, int]]:
        """Yields the groups of rows, each with the number of its first row and its size."""
        if self._file is None:
            yield 0, 0, 0 if self._rows is None else self._rows.num_rows
            return
        first = 0
        for group in range(self._file.metadata.num_row_groups):
            count = self._file.metadata.row_group(group).num_rows
            yield group, first, count
            first += count

    def _read(self, group: int, columns: list[str] | None = None) -> pa.Table:
        if self._file is not None:
            return self._file.read_row_group(group, columns=columns, use_threads=False)
        assert self._rows is not None
        return self._rows if columns is None else self._rows.select(columns)


def _entry(rows: pa.Table, row: int) -> Entry:
    entry: Entry = rows.slice(row, 1).to_pylist()[0]
    return entry


def _mask(column: pa.ChunkedArray, values: Collection[object]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array([*values], column.type))


class LaneReader:
    """Reads the files of one lane.

    Raises:
        FatalError: A file of the ledger is missing or damaged.
    """

    def __init__(
        self,
        root: Path,
        documents: Path,
        lane: int,
        tables: LaneTables | None = None,
        *,
        has_lookups: bool = True,
    ) -> None:
        """``tables`` are those of a run without files; for ``has_lookups`` see ``Manifest``."""
        self._has_lookups = has_lookups
        self._root = root
        self._documents = documents
        self._names = LaneNames(lane)
        self._tables = tables
        self.lane = lane

    def by_position(self, source: int, position: Position) -> list[DecidedRecord]:
        """Finds the records at a position: several if a record is repeated or became two changes."""
        return self._find(_at(source, position) | {"high": {position.high}})

    def by_low(self, source: int, position: Position) -> list[DecidedRecord]:
        """Finds the records with the position's ``part`` and ``low``, and any ``high``."""
        return self._find(_at(source, position))

    def by_key(self, keys: frozenset[str], table_name: str | None = None) -> list[DecidedRecord]:
        """Finds the records of objects with one of these key texts, of all tables or one."""
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

    def lookups(self, source: int, obj: Object) -> list[RecordedLookup]:
        """Reads the look-ups of an object in their order."""
        wanted = {"source": source, **obj._asdict()}
        return [
            RecordedLookup(
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
        path = self._root / name
        with explain_damage(path):
            return _LaneTable(None if self._tables is None else self._tables[name], path)


def _at(source: int, position: Position) -> dict[str, Collection[object]]:
    parts = {position.part} if position.part else {"", None}
    return {"source": {source}, "part": parts, "low": {position.low}}


def readers_of(ledger_run: LedgerRun, manifest: Manifest) -> list[LaneReader]:
    """The readers of all lanes of a run."""
    documents, tables = ledger_run.documents(manifest), ledger_run.tables()
    return [
        LaneReader(
            ledger_run.place, documents, lane, tables, has_lookups=manifest.has_lookups(lane)
        )
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

"""Reads one lane of a journal: decisions by position or key, documents, look-ups."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.journal.key_index import may_have_keys
from publisher.journal.lane_result import LaneNames
from publisher.journal.lookups import LookupAnswer
from publisher.journal.manifest import Journal, Manifest
from publisher.model.change import Object, Outcome, Position, Reason

_ROWS_AT_ONCE = 1_000


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


class _LaneTable(ABC):
    """A table of one lane, which is read in groups of rows."""

    @abstractmethod
    def groups(self, high: int | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yields the groups that may contain a position, each with the number of its first row."""

    @abstractmethod
    def groups_with(self, keys: pa.Array) -> Iterator[tuple[int, pa.Table]]:
        """Yields the groups that may have one of these keys, like ``groups``."""

    @abstractmethod
    def group_of(self, row: int) -> tuple[int, pa.Table]:
        """Returns the group of a row, with the number of its first row."""

    def entry(self, row: int) -> dict[str, Any]:
        """Reads a row by its number."""
        first, rows = self.group_of(row)
        entry: dict[str, Any] = rows.slice(row - first, 1).to_pylist()[0]
        return entry

    def entries(self) -> Iterator[dict[str, Any]]:
        """Reads all rows in order."""
        for _, rows in self.groups():
            for batch in rows.to_batches(_ROWS_AT_ONCE):
                yield from batch.to_pylist()


class _TableInMemory(_LaneTable):
    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def groups(self, high: int | None = None) -> Iterator[tuple[int, pa.Table]]:  # noqa: ARG002
        yield 0, self._rows

    def groups_with(self, keys: pa.Array) -> Iterator[tuple[int, pa.Table]]:  # noqa: ARG002
        yield 0, self._rows

    def group_of(self, row: int) -> tuple[int, pa.Table]:
        if row >= self._rows.num_rows:
            raise _unknown_row(row)
        return 0, self._rows


class _TableInFile(_LaneTable):
    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self._last: tuple[int, pa.Table] | None = None
        """The group that ``group_of`` has read last."""

    def groups(self, high: int | None = None) -> Iterator[tuple[int, pa.Table]]:
        for group, first in self._places():
            if high is None or self._may_contain(group, high):
                yield first, self._file.read_row_group(group, use_threads=False)

    def groups_with(self, keys: pa.Array) -> Iterator[tuple[int, pa.Table]]:
        is_single = self._file.metadata.num_row_groups == 1  # as the index of the lane is for it
        for group, first in self._places():
            if is_single or self._has_keys(group, keys):
                yield first, self._file.read_row_group(group, use_threads=False)

    def _has_keys(self, group: int, keys: pa.Array) -> bool:
        column = self._file.read_row_group(group, columns=["key"], use_threads=False)["key"]
        return bool(pc.any(pc.is_in(column, value_set=keys)).as_py())

    def group_of(self, row: int) -> tuple[int, pa.Table]:
        if self._last is not None and 0 <= row - self._last[0] < self._last[1].num_rows:
            return self._last
        for group, first in self._places():
            if row < first + self._file.metadata.row_group(group).num_rows:
                self._last = first, self._file.read_row_group(group, use_threads=False)
                return self._last
        raise _unknown_row(row)

    def _places(self) -> Iterator[tuple[int, int]]:
        """Yields the row groups, each with the number of its first row."""
        first = 0
        for group in range(self._file.metadata.num_row_groups):
            yield group, first
            first += self._file.metadata.row_group(group).num_rows

    def _may_contain(self, group: int, high: int) -> bool:
        metadata = self._file.metadata
        paths = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
        if "high" not in paths:
            raise FatalError("a decisions file has no column high: publish again")
        limits = metadata.row_group(group).column(paths.index("high")).statistics
        return limits is None or bool(limits.min <= high <= limits.max)


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
        tables: Mapping[str, pa.Table] | None = None,
        *,
        has_lookups: bool = True,
    ) -> None:
        """For ``tables`` see ``Journal.lane_tables``, for ``has_lookups`` ``Manifest.has_lookups``."""
        self._has_lookups = has_lookups
        self._root = root
        self._documents = documents
        self._names = LaneNames(lane)
        self._tables = tables
        self.lane = lane

    def by_position(self, source: int, position: Position) -> list[DecidedRecord]:
        """Finds the records at a position: several if a record is repeated or became two changes."""
        return self._at(source, position, position.high)

    def by_low(self, source: int, position: Position) -> list[DecidedRecord]:
        """Finds the records with the position's ``part`` and ``low``, and any ``high``."""
        return self._at(source, position, None)

    def _at(self, source: int, position: Position, high: int | None) -> list[DecidedRecord]:
        records: list[DecidedRecord] = []
        for first, table in self._decisions.groups(high):
            mask = pc.and_(
                pc.equal(table["source"], source),
                pc.and_(
                    pc.equal(pc.fill_null(table["part"], ""), position.part),
                    pc.equal(table["low"], position.low),
                ),
            )
            if high is not None:
                mask = pc.and_(mask, pc.equal(table["high"], high))
            records += self._rows(table, first, mask)
        return records

    def by_key(self, keys: frozenset[str], table_name: str | None = None) -> list[DecidedRecord]:
        """Finds the records of objects with one of these key texts, of all tables or one."""
        records: list[DecidedRecord] = []
        if not may_have_keys(self._root / self._names.keys, keys):
            return records
        key_values = pa.array(sorted(keys), pa.string())
        for first, table in self._decisions.groups_with(key_values):
            mask = pc.is_in(table["key"], value_set=key_values)
            if table_name is not None:
                mask = pc.and_(mask, pc.equal(table["table"], table_name))
            records += self._rows(table, first, pc.fill_null(mask, False))
        return records

    def by_document(self, number: int) -> list[DecidedRecord]:
        """Finds the records that a document publishes."""
        records: list[DecidedRecord] = []
        for first, table in self._decisions.groups():
            records += self._rows(table, first, pc.equal(table["document"], number))
        return records

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

    def _lookups_of(self, key: str) -> Iterator[dict[str, Any]]:
        if not self._has_lookups:
            return
        for _, rows in self._open(self._names.lookups).groups():
            yield from rows.filter(pc.equal(rows["key"], key)).to_pylist()

    @cached_property
    def _decisions(self) -> _LaneTable:
        return self._open(self._names.decisions)

    @cached_property
    def _index(self) -> _LaneTable:
        return self._open(self._names.index)

    def _open(self, name: str) -> _LaneTable:
        if self._tables is not None:
            return _TableInMemory(self._tables[name])
        try:
            return _TableInFile(pq.ParquetFile(self._root / name))
        except (OSError, pa.ArrowInvalid) as error:
            raise FatalError(
                f"{self._root / name} of the journal cannot be read ({error}): publish again"
            ) from error

    def _rows(self, table: pa.Table, first: int, mask: pa.ChunkedArray) -> Iterator[DecidedRecord]:
        places = pc.indices_nonzero(mask)
        for place, entry in zip(places.to_pylist(), table.take(places).to_pylist(), strict=True):
            yield _record(self.lane, first + place, entry)


def readers_of(journal: Journal, manifest: Manifest) -> list[LaneReader]:
    """The readers of all lanes of a run."""
    root, documents, tables = journal.root, journal.documents(manifest), journal.lane_tables
    return [
        LaneReader(root, documents, lane, tables, has_lookups=manifest.has_lookups(lane))
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
        *("logged_table", "logged_column"),
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

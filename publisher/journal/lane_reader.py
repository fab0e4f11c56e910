"""Reads one lane of a journal: decisions by position or key, documents, look-ups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.journal.lane_writer import LaneNames, LookupAnswer
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


@dataclass(frozen=True, slots=True)
class PublishedDocument:
    """A document of the journal: its entry in the index, and its text."""

    number: int
    operation: str
    association: str
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


class LaneReader:
    """Reads the files of one lane.

    Raises:
        FatalError: A file of the journal is missing or damaged.
    """

    def __init__(self, root: Path, documents: Path, lane: int) -> None:
        self._root = root
        self._documents = documents
        self._names = LaneNames(lane)
        self.lane = lane

    def by_position(self, source: int, position: Position) -> list[DecidedRecord]:
        """Finds the records at a position: several if a record is repeated or became two changes."""
        return self._at(source, position, position.high)

    def by_low(self, source: int, position: Position) -> list[DecidedRecord]:
        """Finds the records with the position's ``part`` and ``low``, and any ``high``."""
        return self._at(source, position, None)

    def _at(self, source: int, position: Position, high: int | None) -> list[DecidedRecord]:
        records: list[DecidedRecord] = []
        for first, table in self._groups(high):
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
        key_values = pa.array(sorted(keys), pa.string())
        for first, table in self._groups(None):
            mask = pc.is_in(table["key"], value_set=key_values)
            if table_name is not None:
                mask = pc.and_(mask, pc.equal(table["table"], table_name))
            records += self._rows(table, first, pc.fill_null(mask, False))
        return records

    def row(self, number: int) -> DecidedRecord:
        """Reads the record with this number in the lane."""
        group, first = _group_of(self._decisions.metadata, number)
        table = self._decisions.read_row_group(group)
        return _record(self.lane, number, table.slice(number - first, 1).to_pylist()[0])

    def document(self, number: int) -> PublishedDocument:
        """Reads a document by its number in the lane."""
        group, first = _group_of(self._index.metadata, number)
        entry = self._index.read_row_group(group).slice(number - first, 1).to_pylist()[0]
        return self._document(number, entry)

    def documents(self) -> Iterator[PublishedDocument]:
        """Reads all documents of the lane in order."""
        number = 0
        for batch in self._index.iter_batches(_ROWS_AT_ONCE):
            for entry in batch.to_pylist():
                yield self._document(number, entry)
                number += 1

    def decisions(self) -> Iterator[DecidedRecord]:
        """Reads all records of the lane in the order of arrival."""
        number = 0
        for batch in self._decisions.iter_batches(_ROWS_AT_ONCE):
            for entry in batch.to_pylist():
                yield _record(self.lane, number, entry)
                number += 1

    def _document(self, number: int, entry: dict[str, Any]) -> PublishedDocument:
        path = self._documents / self._names.part
        try:
            with path.open("rb") as file:
                file.seek(entry["offset"])
                text = file.read(entry["length"]).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise FatalError(f"{path} cannot be read ({error}): publish again") from error
        return PublishedDocument(
            number=number,
            operation=entry["operation"],
            association=entry["association"],
            event_id=entry["event_id"],
            poll=entry["poll"],
            records=entry["records"],
            part=self._names.part,
            offset=entry["offset"],
            text=text,
        )

    def lookups(self, source: int, obj: Object) -> list[JournalLookup]:
        """Reads the look-ups of an object in their order."""
        table = self._open(self._names.lookups).read()
        mask = pc.and_(pc.equal(table["source"], source), pc.equal(table["key"], obj.key))
        mask = pc.and_(mask, pc.equal(table["table"], obj.table))
        return [
            JournalLookup(
                poll=entry["poll"],
                answer=LookupAnswer(entry["answer"]),
                row=json.loads(entry["text"]) if entry["answer"] == LookupAnswer.ROW else None,
                detail=entry["text"] if entry["answer"] != LookupAnswer.ROW else None,
            )
            for entry in table.filter(mask).to_pylist()
            if entry["schema"] == obj.schema
        ]

    @cached_property
    def _decisions(self) -> pq.ParquetFile:
        return self._open(self._names.decisions)

    @cached_property
    def _index(self) -> pq.ParquetFile:
        return self._open(self._names.index)

    def _open(self, name: str) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self._root / name)
        except (OSError, pa.ArrowInvalid) as error:
            raise FatalError(
                f"{self._root / name} of the journal cannot be read ({error}): publish again"
            ) from error

    def _groups(self, high: int | None) -> Iterator[tuple[int, pa.Table]]:
        """Yields row groups that may contain a position, each with the number of its first row."""
        metadata = self._decisions.metadata
        column = self._decisions.schema_arrow.get_field_index("high")
        leaf = _leaf_of(metadata, column, "high")
        first = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            limits = group.column(leaf).statistics
            inside = high is None or limits is None or limits.min <= high <= limits.max
            if inside:
                yield first, self._decisions.read_row_group(number)
            first += group.num_rows

    def _rows(self, table: pa.Table, first: int, mask: pa.ChunkedArray) -> Iterator[DecidedRecord]:
        places = pc.indices_nonzero(mask)
        for place, entry in zip(places.to_pylist(), table.take(places).to_pylist(), strict=True):
            yield _record(self.lane, first + place, entry)


def _leaf_of(metadata: pq.FileMetaData, guess: int, name: str) -> int:
    for leaf in range(guess, metadata.num_columns):
        if metadata.schema.column(leaf).path == name:
            return leaf
    raise FatalError(f"a decisions file has no column {name}: publish again")


def _group_of(metadata: pq.FileMetaData, row: int) -> tuple[int, int]:
    first = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if row < first + rows:
            return group, first
        first += rows
    raise FatalError(f"the journal has no row {row}: it is damaged, publish again")


def _record(lane: int, row: int, entry: dict[str, object]) -> DecidedRecord:
    values: dict[str, Any] = dict(entry)
    position = Position(*(values[name] for name in Position._fields))
    obj = None
    if values["key"] is not None:
        obj = Object(values["schema"], values["table"], values["key"])
    copied = ("source", "split", "event_type", "event_time", "perpetrator", "by", "document")
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
        **{name: values[name] for name in copied},
    )

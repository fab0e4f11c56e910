"""Answers of a database from the journal of a run: its tables, and the rows that were looked up."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import UsageError
from publisher.journal.lane_result import LaneNames, LaneResult
from publisher.journal.lookups import LookupAnswer
from publisher.model import keys
from publisher.model.catalogue import Catalogue
from publisher.model.catalogue_record import CatalogueRecord, RecordedCatalogue
from publisher.model.change import Object, Outcome, Reason
from publisher.model.change_batches import objects_of
from publisher.planning.query_back import (
    Answer,
    Answers,
    CurrentRow,
    CurrentRows,
    RefusedLookup,
)
from publisher.planning.row_readers import Ranks, RowQuestion

_SCHEMA = """
CREATE TABLE lookups (
  source INTEGER, name TEXT, row TEXT, object TEXT, poll INTEGER, answer TEXT, text TEXT
);
CREATE TABLE reasons (source INTEGER, name TEXT, detail TEXT, reason TEXT);
"""
_INDEXES = """
CREATE INDEX lookups_by_name ON lookups (source, name);
CREATE INDEX reasons_by_name ON reasons (source, name);
"""
_OBJECT = ("source", "schema", "table", "key")
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class RecordedDatabase:
    """The recorded answers of a database.

    ``catalogue`` is that of the manifest, ``lookups`` a file of ``write_lookups``."""

    catalogue: str
    lookups: Path
    poll_sizes: tuple[int | None, ...]
    """The size of the polls of each source of the run; ``None``: each change is a poll by itself."""

    def read_catalogue(self) -> RecordedCatalogue:
        """Reads the description of the tables."""
        return RecordedCatalogue(CatalogueRecord.from_text(self.catalogue))

    def open_rows(self, source: int, classes: Catalogue | None) -> RecordedRows:
        """Opens the looked-up rows of a source."""
        return RecordedRows(self.lookups, source, self.poll_sizes[source], classes)


def write_lookups(root: Path, results: Iterable[LaneResult], file: Path) -> None:
    """Copies the look-ups of the lanes of a journal into a file in which rows are found by their names.

    Spelling of tables and columns may differ in case when they are found."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(_SCHEMA)
        for result in results:
            names = LaneNames(result.lane)
            for entry in _rows(root / names.lookups) if result.has_lookups else ():
                obj = _object(entry)
                key = entry.get("row_key")  # older versions did not write it
                row = obj if key is None else obj._replace(key=key)
                names_of_row = (fold_name(row), repr(row), repr(obj))
                answer = (entry.get(name) for name in ("poll", "answer", "text"))
                values = (entry["source"], *names_of_row, *answer)
                connection.execute("INSERT INTO lookups VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            rejected = (pc.field("outcome") == int(Outcome.REJECTED)) & pc.field("key").is_valid()
            columns = [*_OBJECT, "outcome", "detail", "reason"]
            for entry in _rows(root / names.decisions, columns, rejected):
                reason = (
                    entry["source"],
                    fold_name(_object(entry)),
                    entry["detail"],
                    entry["reason"],
                )
                connection.execute("INSERT INTO reasons VALUES (?, ?, ?, ?)", reason)
        connection.executescript(_INDEXES)
        connection.commit()


def _rows(
    path: Path, columns: Sequence[str] | None = None, condition: pc.Expression | None = None
) -> Iterator[dict[str, Any]]:
    """Reads a file of the journal row group by row group."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
            rows = pa.Table.from_batches([batch])
            yield from (rows if condition is None else rows.filter(condition)).to_pylist()


def _object(entry: dict[str, Any]) -> Object:
    return Object(entry["schema"], entry["table"], entry["key"])


def fold_name(obj: Object) -> str:
    """The name of an object; equal for names of schema, table and columns in another case."""
    try:
        parts = sorted((part.column.casefold(), part.value) for part in keys.parse(obj.key))
        key = keys.format_key(parts)
    except keys.KeyProblem:
        key = obj.key
    return "\x1f".join(((obj.schema or "").casefold(), obj.table.casefold(), key))


class RecordedRows:
    """The ``CurrentRowReader`` of a source, from the look-ups of a journal.

    The answer to a question is the last one that the run had for the row until then.  Raises ``UsageError``
    for rows and attributes that the run did not look up."""

    may_read_ahead: ClassVar[bool] = False
    reads_at_once = 1

    def __init__(
        self,
        file: Path,
        source: int,
        poll_size: int | None,
        classes: Catalogue | None,
    ) -> None:
        """For ``poll_size`` see ``RecordedDatabase``."""
        # query-backs are read in a thread of their own
        self._connection = sqlite3.connect(
            f"file:{file}?mode=ro", uri=True, check_same_thread=False
        )
        self._source = source
        self._poll_size = poll_size
        self._classes = classes

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def answers(self, questions: Sequence[RowQuestion]) -> list[Answer]:
        """Returns the recorded answer to each of the questions."""
        return [self._answer(question) for question in questions]

    def read(self, objects: pa.RecordBatch, ranks: Ranks) -> Answers:
        """Reads recorded rows column by column."""
        rows: dict[object, dict[int, CurrentRow]] = {}
        others: dict[int, RefusedLookup | None] = {}
        for place, (obj, rank) in enumerate(zip(objects_of(objects), ranks.tolist(), strict=True)):
            answer = self._answer(RowQuestion(obj, rank, obj, None))
            if isinstance(answer, CurrentRow):
                spelling = tuple(part.column for part in keys.parse(obj.key))
                shape = (obj.schema, obj.table, spelling, answer.columns)
                rows.setdefault(shape, {})[place] = answer
            else:
                others[place] = answer
        return Answers([*map(CurrentRows.of, rows.values())], others)

    def _answer(self, question: RowQuestion) -> Answer:
        obj = question.object
        kind, text = self._find(question)
        if kind == LookupAnswer.GONE:
            return None
        if kind == LookupAnswer.REFUSED:
            return RefusedLookup(self._reason(obj, text), text)
        row: dict[str, Any] = json.loads(text)
        self._check(obj, question.columns, row)
        values = (tuple(each) if isinstance(each, list) else each for each in row.values())
        return CurrentRow(tuple(row), tuple(values))

    def _find(self, question: RowQuestion) -> tuple[Any, ...]:
        """Finds the look-up of a row that answers a question."""
        name, row = fold_name(question.row), repr(question.row)
        size, rank = self._poll_size, question.rank
        poll = rank if size is None else (rank - 1) // size
        found = self._connection.execute(
            "SELECT row, answer, text FROM lookups WHERE source = ? AND name = ? "
            "ORDER BY row = ? DESC, poll <= ? DESC, abs(poll - ?), object = ? DESC, rowid LIMIT 1",
            (self._source, name, row, poll, poll, repr(question.object)),
        ).fetchone()
        if found is None or (found[0] != row and self._count_spellings(name) > 1):
            raise _missing(f"the row of {question.row.key} of {question.row.qualified_table}")
        answer: tuple[Any, ...] = found[1:]
        return answer

    def _count_spellings(self, name: str) -> int:
        """Counts the rows whose names differ in case only."""
        (count,) = self._connection.execute(
            "SELECT count(DISTINCT row) FROM lookups WHERE source = ? AND name = ?",
            (self._source, name),
        ).fetchone()
        return int(count)

    def _reason(self, obj: Object, detail: str) -> Reason:
        found = self._connection.execute(
            "SELECT reason FROM reasons WHERE source = ? AND name = ? AND detail = ?",
            (self._source, fold_name(obj), detail),
        ).fetchone()
        return Reason.DATABASE_REFUSED if found is None else Reason(found[0])

    def _check(self, obj: Object, columns: Collection[str] | None, row: Iterable[str]) -> None:
        """Raises ``UsageError`` if attributes of child tables are needed that the run did not read."""
        table = None if self._classes is None else self._classes.table(obj.schema, obj.table)
        if table is None or not table.children:
            return
        present = set(row)
        wanted = {table.column(name) or name for name in columns or table.columns}
        absent = (n for n in sorted(wanted - present) if table.child_of(n) is not None)
        names = ", ".join(islice(absent, 5))
        if names:
            raise _missing(f"{names} of {obj.key} of {obj.qualified_table}")


def _missing(what: str) -> UsageError:
    return UsageError(
        f"the journal does not have {what}, which the run did not look up with its own settings: leave out "
        "the setting that needs it, or compare with a replay that uses the database"
    )

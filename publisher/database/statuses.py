"""Status letters into a table by its record ids: set by set, a transaction for each portion.

Only rows that still have the expected status are changed, so doing it again after a crash, or beside
somebody who changed rows meanwhile, does no harm.  Rows that a run has read are compared by their
fingerprints: a portion with a row that is another one is rolled back, and done again without it.
PostgreSQL gives back the rows of each UPDATE as it changes them, elsewhere they are locked and read
before.  A portion of ids becomes few statements: letters
that are rare by list, then the letter that is left for a run of ids without a gap as one range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from sqlalchemy import (
    ColumnElement,
    Connection,
    Text,
    and_,
    any_,
    case,
    cast,
    column,
    delete,
    inspect,
    literal_column,
    quoted_name,
    text,
    types,
    update,
)
from sqlalchemy import table as sql_table
from sqlalchemy.exc import DBAPIError

from publisher.database.catalogue import Relation
from publisher.database.connection import Database, fatal
from publisher.database.row_check import Compared, RowCheck, RowReader
from publisher.errors import InternalError
from publisher.model.catalogue import Kind

T = TypeVar("T")

Ids = npt.NDArray[np.int64]
Letters = npt.NDArray[np.uint8]

NEW = "N"
DELETED = "D"
"""Stands in counts for rows that were deleted."""


class Sizes(NamedTuple):
    """How much goes into one statement."""

    rows: int
    """Rows of a transaction."""
    listed: int
    """Ids in a list."""
    run: int
    """Ids in a run that is worth a statement of its own."""


_ARRAYS = Sizes(50_000, 50_000, 5_000)
"""PostgreSQL takes a list of any length as one parameter."""
_LISTS = Sizes(20_000, 500, 50)
"""Some databases read long lists as tables, or refuse them."""
# without an index on the record id each statement reads the whole table
_ARRAYS_UNINDEXED = Sizes(500_000, 500_000, 200_000)
_LISTS_UNINDEXED = Sizes(500_000, 20_000, 20_000)
_TAKE_LONG_LISTS = ("sqlite", "mysql", "mariadb")


_LOCK_TIMEOUT = "30s"
_IDLE_SECONDS = 15
"""An instance that is halted in a transaction lets its rows go to the one that takes over."""


class Listed(NamedTuple):
    """These ids get a letter."""

    letter: str
    ids: Ids


class Range(NamedTuple):
    """All ids from ``low`` to ``high`` that have none yet get a letter."""

    letter: str
    low: int
    high: int


Step = Listed | Range


def steps(ids: Ids, letters: Letters, run: int | None) -> list[Step]:
    """What to do, in this order, so that each id gets its letter and no other id gets any.

    ``ids`` ascend, each once.  ``run`` is the length of the shortest range, ``None``: there are none.
    A range has no gap: an id that is not there may be that of a row which came later.
    """
    if not len(ids):
        return []
    letters = letters.copy()
    found: list[Step] = []
    if run is not None:
        breaks = np.flatnonzero(np.diff(ids) != 1) + 1
        starts, ends = np.concatenate(([0], breaks)), np.concatenate((breaks, [len(ids)]))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            if end - start >= run:
                most = int(np.argmax(np.bincount(letters[start:end])))
                found.append(Range(chr(most), int(ids[start]), int(ids[end - 1])))
                part = letters[start:end]
                part[part == most] = 0
    listed: list[Step] = [
        Listed(chr(letter), ids[letters == letter])
        for letter in np.flatnonzero(np.bincount(letters, minlength=1)).tolist()
        if letter
    ]
    return listed + found


@dataclass(frozen=True, slots=True)
class LogTable:
    """The table, and its columns as the database has them."""

    relation: Relation
    record_id: str
    status: str
    check: RowCheck | None = None
    """How rows are compared before they are changed; without it they are known by id alone."""


class _OtherRowsError(Exception):
    """Rows with these ids are not those that the run has read: nothing of the portion was done."""

    def __init__(self, ids: Ids) -> None:
        super().__init__()
        self.ids = ids


class StatusWriter:
    """Changes the status of rows of one table.

    Raises ``UnreachableError``, and ``FatalError`` where the database refuses.
    """

    def __init__(
        self,
        database: Database,
        log: LogTable,
        check_lease: Callable[[], None],
        *,
        deleted: frozenset[str] = frozenset(),
    ) -> None:
        """``check_lease`` is called before each transaction and raises where another instance has
        taken over.  Rows whose letter is one of ``deleted`` are deleted instead."""
        self._database = database
        self._log = log
        self._check_lease = check_lease
        self._deleted = [ord(letter) for letter in sorted(deleted)]
        relation = log.relation
        self._integer = relation.table.columns[log.record_id] is Kind.INT
        self._text = relation.table.columns[log.record_id] is Kind.STRING
        self._id: ColumnElement[Any] = column(quoted_name(log.record_id, quote=True))
        self._status: ColumnElement[Any] = column(quoted_name(log.status, quote=True))
        schema = None if relation.schema is None else quoted_name(relation.schema, quote=True)
        name = quoted_name(relation.table.name, quote=True)
        self._table = sql_table(name, self._id, self._status, schema=schema)
        self._rows = RowReader(database, relation, log.check) if log.check is not None else None
        self.others = 0
        """Ids left alone so far, as their rows are not those that were read."""
        self._indexed = False
        self._sizes: Sizes | None = None

    def write(self, ids: Ids, letters: Letters, known: Ids | None = None) -> Counter[str]:
        """Letters (as ASCII codes) into rows that are still ``N``; ids ascend, each once.

        Of ``known`` fingerprints, which ascend, a row must have one.  Returns the number of rows that
        were changed, by letter.
        """
        if self._deleted:
            letters = np.where(np.isin(letters, self._deleted), ord(DELETED), letters)
        return self._portions(ids, letters.astype(np.uint8), (NEW,), known)

    def renew(self, ids: Ids, among: Sequence[str], known: Ids | None = None) -> int:
        """Gives ``N`` to rows whose status is one of ``among``; returns how many were changed."""
        ids = np.unique(ids)
        letters = np.full(len(ids), ord(NEW), np.uint8)
        return self._portions(ids, letters, among, known).total()

    def compare(self, ids: Ids, known: Ids) -> Compared:
        """Compares the rows of some ids with fingerprints, in any status; changes nothing."""
        assert self._rows is not None
        rows, size = self._rows, self._size()

        def work(connection: Connection) -> Compared:
            same, others = 0, [np.empty(0, np.int64)]
            connection.execution_options(compiled_cache=None)
            for start in range(0, len(ids), size.listed):
                listed = Listed(NEW, ids[start : start + size.listed])
                for condition in self._conditions(connection, listed):
                    found = rows.compare(
                        connection, rows.selecting(connection, self._table, condition), known
                    )
                    same += found.same
                    others.append(found.others)
            return Compared(same, np.unique(np.concatenate(others)))

        return self._run(work)

    def renew_all(self, among: Sequence[str]) -> int:
        """Gives ``N`` to all rows whose status is one of ``among``; returns how many were changed."""

        def work(connection: Connection) -> int:
            with self._begun(connection):
                wanted = self._status.in_([_quoted(letter) for letter in among])
                return self._change(connection, NEW, wanted)

        return self._run(work)

    def _size(self) -> Sizes:
        if self._sizes is None:
            self._sizes = self._run(self._sized)
        return self._sizes

    def _portions(
        self, ids: Ids, letters: Letters, among: Sequence[str], known: Ids | None
    ) -> Counter[str]:
        """Changes rows, a transaction for each portion."""
        rows = self._size().rows
        changed: Counter[str] = Counter()
        for start in range(0, len(ids), rows):
            end = start + rows
            changed += self._portion(ids[start:end], letters[start:end], among, known)
        return changed

    def _portion(
        self, ids: Ids, letters: Letters, among: Sequence[str], known: Ids | None
    ) -> Counter[str]:
        """Changes rows in one transaction, without those that are not the rows of the run."""
        run = self._size().run if self._integer else None
        while True:
            try:
                return self._transaction(steps(ids, letters, run), among, known)
            except _OtherRowsError as other:
                mine = ~np.isin(ids, other.ids)
            if mine.all():
                raise InternalError("rows that were not asked for were given back: report this")
            self.others += int(np.count_nonzero(~mine))
            # ranges would have those that are left alone in them
            ids, letters, run = ids[mine], letters[mine], None

    def _transaction(
        self, some: Sequence[Step], among: Sequence[str], known: Ids | None
    ) -> Counter[str]:
        def work(connection: Connection) -> Counter[str]:
            changed: Counter[str] = Counter()
            with self._begun(connection):
                for step in some:
                    for condition in self._conditions(connection, step):
                        both = and_(condition, self._has_one_of(among))
                        changed[step.letter] += self._change(connection, step.letter, both, known)
            return changed

        return self._run(work)

    @contextmanager
    def _begun(self, connection: Connection) -> Iterator[None]:
        """A transaction that holds up others as little as can be."""
        self._check_lease()
        dialect = connection.dialect.name
        connection.execution_options(compiled_cache=None)  # lists stand in the statements
        if dialect in ("postgresql", "mysql", "mariadb"):
            # MariaDB locks gaps above this level, where others insert
            connection.execution_options(isolation_level="READ COMMITTED")
        with connection.begin():
            if dialect == "sqlite":  # before rows are compared, not before they are changed
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            for setting in _limits(connection):
                connection.execute(text(setting))
            yield

    def _change(
        self,
        connection: Connection,
        letter: str,
        where: ColumnElement[bool],
        known: Ids | None = None,
    ) -> int:
        """Changes the rows; raises ``_OtherRowsError`` where one is not known."""
        change: Any = delete(self._table)
        if letter != DELETED:
            change = update(self._table).values({self._status: _quoted(letter)})
        change = change.where(where)
        if known is None or self._rows is None:
            return connection.execute(change).rowcount
        rows = self._rows
        asked = (
            rows.returning(connection, change)
            if rows.returns_rows
            else rows.selecting(connection, self._table, where).with_for_update()
        )
        compared = rows.compare(connection, asked, known)
        if len(compared.others):
            raise _OtherRowsError(compared.others)
        return compared.same if rows.returns_rows else connection.execute(change).rowcount

    def _conditions(self, connection: Connection, step: Step) -> Iterator[ColumnElement[bool]]:
        """Which ids: one condition for each statement."""
        if isinstance(step, Range):
            yield self._id.between(_number(step.low), _number(step.high))
        elif connection.dialect.name == "postgresql":
            yield self._in_array(step.ids)
        else:
            listed = self._size().listed
            for start in range(0, len(step.ids), listed):
                yield self._in_list(step.ids[start : start + listed])

    def _in_array(self, ids: Ids) -> ColumnElement[bool]:
        values: list[int] = ids.tolist()
        type_ = "text" if self._text else "bigint" if self._integer else "numeric"
        # as one text: whole numbers need no quotes
        array: ColumnElement[Any] = literal_column(f"'{{{','.join(map(str, values))}}}'::{type_}[]")
        condition = self._id == any_(array)
        if self._text:
            return condition
        # the planner does not see this in the array
        return and_(condition, self._id.between(_number(values[0]), _number(values[-1])))

    def _in_list(self, ids: Ids) -> ColumnElement[bool]:
        values: list[Any] = ids.tolist()
        if not self._text:
            # as one text: an element for each costs eight times as much (measured)
            numbers: ColumnElement[Any] = literal_column(f"({', '.join(map(str, values))})")
            return self._id.op("IN", is_comparison=True)(numbers)
        typeless = isinstance(self._log.relation.types[self._log.record_id], types.NullType)
        as_text = cast(self._id, Text) if typeless else self._id
        return as_text.in_(list(map(str, values)))

    def _has_one_of(self, among: Sequence[str]) -> ColumnElement[bool]:
        wanted = self._status.in_([_quoted(letter) for letter in among])
        if not self._indexed:
            return wanted
        # an index on the status must not be taken: it has all rows of the log, the ids have few
        return case((wanted, 1), else_=0) == 1

    def _sized(self, connection: Connection) -> Sizes:
        """How much goes into one statement of this table."""
        self._indexed = self._has_index(connection)
        if connection.dialect.name == "postgresql":
            return _ARRAYS if self._indexed else _ARRAYS_UNINDEXED
        long = connection.dialect.name in _TAKE_LONG_LISTS and not self._text
        return _LISTS_UNINDEXED if long and not self._indexed else _LISTS

    def _has_index(self, connection: Connection) -> bool:
        relation = self._log.relation
        inspector = inspect(connection)
        indexes = inspector.get_indexes(relation.table.name, relation.schema)
        firsts = [index["column_names"][:1] for index in indexes]
        return [self._log.record_id] in [list(relation.table.key[:1]), *firsts]

    def _run(self, work: Callable[[Connection], T]) -> T:
        try:
            return self._database.run(work)
        except DBAPIError as error:
            name = self._log.relation.table.name
            raise fatal(self._database, error, f"Writing the status into table {name}") from error


def _limits(connection: Connection) -> Iterator[str]:
    """How long a transaction waits for others, and others for one that is halted."""
    if connection.dialect.name == "postgresql":
        # as the others do; while we wait, others wait for us
        yield f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"
        yield f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'"
    elif getattr(connection.dialect, "is_mariadb", False):
        # MySQL has no such setting
        yield f"SET SESSION idle_write_transaction_timeout = {_IDLE_SECONDS}"


def _number(value: int) -> ColumnElement[Any]:
    # as a literal: a statement whose rows are copied takes no parameters
    return literal_column(str(value))


def _quoted(letter: str) -> ColumnElement[str]:
    # a letter of ours; as a literal it fits columns of any type, also enumerations
    return literal_column(f"'{letter}'")

"""Writes status letters by record id, one transaction for each portion of ids.

Only rows that still have the expected status are changed, so a repetition after a crash, or a change by
somebody else, does no harm.  Fingerprints show whether the run has read a row: a portion with another row
is rolled back and repeated without this row.  PostgreSQL returns the rows of each UPDATE; in other
databases the rows are locked and read first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Connection,
    Text,
    and_,
    any_,
    case,
    cast,
    delete,
    func,
    literal_column,
    not_,
    or_,
    select,
    types,
    update,
)

from publisher.database.catalogue import Relation, catalogue_of, sql_column, sql_table_of
from publisher.database.connection import Database, fatal_errors
from publisher.database.row_check import RowCheck, RowReader
from publisher.database.status_steps import IdRange, Ids, Letters, ListedIds, Step, plan_steps
from publisher.errors import InternalError
from publisher.model.catalogue import ColumnKind
from publisher.model.change import Status

T = TypeVar("T")

NEW = Status.NEW
DELETED = "D"
"""Letter of deleted rows in counts."""


class Sizes(NamedTuple):
    """Sizes of statements and transactions."""

    rows: int
    """Rows of one transaction."""
    listed: int
    """Ids in one list."""
    series: int
    """Minimum length of a series of ids without gaps that gets a statement of its own."""


ARRAYS = Sizes(50_000, 50_000, 5_000)
"""PostgreSQL accepts a list of any length as one parameter."""
LISTS = Sizes(20_000, 500, 50)
"""Some databases treat long lists as tables, or refuse them."""
# without an index on the record id, each statement reads the whole table
UNINDEXED_ARRAYS = Sizes(500_000, 500_000, 200_000)
UNINDEXED_LISTS = Sizes(500_000, 20_000, 20_000)
_DIALECTS_WITH_LONG_LISTS = ("sqlite", "mysql", "mariadb")


LOCK_TIMEOUT = "30s"
IDLE_SECONDS = 15
"""Seconds after which a halted instance loses its locks to the one that takes over."""


@dataclass(frozen=True, slots=True)
class LogTable:
    """The table of an event log, with columns in the spelling of the database."""

    relation: Relation
    record_id: str
    status: str
    check: RowCheck | None = None
    """Comparison of rows before they are changed; if ``None``, ids alone identify rows."""


class _OtherRowsError(Exception):
    """The run has not read the rows with these ids; nothing of the portion is changed."""

    def __init__(self, ids: Ids) -> None:
        super().__init__()
        self.ids = ids


class StatusWriter:
    """Changes the status of rows of one table.

    Raises ``UnreachableError``, and ``FatalError`` if the database refuses.
    """

    def __init__(
        self,
        database: Database,
        log: LogTable,
        check_lease: Callable[[], None],
        *,
        deleted: frozenset[str] = frozenset(),
    ) -> None:
        """``check_lease`` is called before each transaction and raises if another instance has taken
        over.  Rows whose letter is one of ``deleted`` are deleted instead."""
        self._database = database
        self._log = log
        self._check_lease = check_lease
        self._deleted = [ord(letter) for letter in sorted(deleted)]
        relation = log.relation
        self._integer = relation.table.columns[log.record_id] is ColumnKind.INT
        self._text = relation.table.columns[log.record_id] is ColumnKind.STRING
        self._id, self._status = sql_column(log.record_id), sql_column(log.status)
        self._table = sql_table_of(relation, self._id, self._status)
        self._rows = RowReader(database, relation, log.check) if log.check is not None else None
        self.others = 0
        """Number of ids that were skipped because the run has not read their rows."""
        self._indexed = False
        self._sizes: Sizes | None = None

    def write(self, ids: Ids, letters: Letters, known: Ids | None = None) -> Counter[str]:
        """Writes letters (ASCII codes) to rows that are still N; ids are sorted and unique.

        A row must have one of the sorted fingerprints ``known``.  Returns the number of changed rows by
        letter.
        """
        if self._deleted:
            letters = np.where(np.isin(letters, self._deleted), ord(DELETED), letters)
        return self._portions(ids, letters.astype(np.uint8), (NEW,), known)

    def reset(self, ids: Ids, among: Sequence[str], known: Ids | None = None) -> int:
        """Resets rows whose status is one of ``among`` to N; returns their number.

        In a read-only database the rows are only counted."""
        ids = np.unique(ids)
        letters = np.full(len(ids), ord(NEW), np.uint8)
        return self._portions(ids, letters, among, known).total()

    def reset_all(self, among: Sequence[str], without: Ids) -> int:
        """Resets all rows whose status is one of ``among`` to N, except some ids, see ``reset``."""

        def work(connection: Connection) -> int:
            with self._transaction_on(connection):
                wanted: ColumnElement[bool] = self._status.in_(list(map(_literal, among)))
                if len(without):
                    conditions = self._conditions(connection, ListedIds(NEW, without))
                    wanted = and_(wanted, or_(self._id.is_(None), not_(or_(*conditions))))
                return self.change_rows(connection, NEW, wanted)

        self._size()  # needs the connection, too
        return self._run(work)

    def read_letters(self, ids: Ids) -> dict[int, set[str]]:
        """Reads the statuses of the rows of some ids; ids without a row are missing."""
        letters: dict[int, set[str]] = {}
        rows = select(self._id, self._status).select_from(self._table)

        def work(connection: Connection) -> None:
            connection.execution_options(compiled_cache=None)
            for condition in self._conditions(connection, ListedIds(NEW, ids)):
                for number, letter in connection.execute(rows.where(condition)):
                    letters.setdefault(int(number), set()).add(str(letter).strip())

        if len(ids):
            self._size()  # needs the connection, too
            self._run(work)
        return letters

    def _size(self) -> Sizes:
        if self._sizes is None:
            self._sizes = self._choose_sizes()
        return self._sizes

    def _portions(
        self, ids: Ids, letters: Letters, among: Sequence[str], known: Ids | None
    ) -> Counter[str]:
        """Changes rows, one transaction for each portion."""
        rows = self._size().rows
        changed: Counter[str] = Counter()
        for start in range(0, len(ids), rows):
            end = start + rows
            changed += self._portion(ids[start:end], letters[start:end], among, known)
        return changed

    def _portion(
        self, ids: Ids, letters: Letters, among: Sequence[str], known: Ids | None
    ) -> Counter[str]:
        """Changes rows in one transaction, except rows that the run has not read."""
        min_range = self._size().series if self._integer else None
        while True:
            try:
                return self._transaction(plan_steps(ids, letters, min_range), among, known)
            except _OtherRowsError as error:
                same = ~np.isin(ids, error.ids)
            if same.all():
                raise InternalError("a statement returned rows of other ids: report this")
            self.others += int(np.count_nonzero(~same))
            # ranges would include the skipped ids
            ids, letters, min_range = ids[same], letters[same], None

    def _transaction(
        self, steps: Sequence[Step], among: Sequence[str], known: Ids | None
    ) -> Counter[str]:
        def work(connection: Connection) -> Counter[str]:
            changed: Counter[str] = Counter()
            with self._transaction_on(connection):
                for step in steps:
                    for condition in self._conditions(connection, step):
                        both = and_(condition, self._has_one_of(among))
                        changed[step.letter] += self.change_rows(
                            connection, step.letter, both, known
                        )
            return changed

        return self._run(work)

    @contextmanager
    def _transaction_on(self, connection: Connection) -> Iterator[None]:
        """Opens a transaction that blocks others as little as possible."""
        if not self._database.writing:
            with connection.begin():
                yield
            return
        self._check_lease()
        dialect = connection.dialect.name
        connection.execution_options(compiled_cache=None)  # lists are part of the statements
        if dialect in ("postgresql", "mysql", "mariadb"):
            # at a higher level MariaDB locks gaps into which others insert
            connection.execution_options(isolation_level="READ COMMITTED")
        with connection.begin():
            if dialect == "sqlite":
                # locks before rows are compared, not only before they are changed
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            limits = "; ".join(_limits(connection))
            if limits:
                connection.exec_driver_sql(limits)
            yield

    def change_rows(
        self,
        connection: Connection,
        letter: str,
        where: ColumnElement[bool],
        known: Ids | None = None,
    ) -> int:
        """Changes the rows; raises ``_OtherRowsError`` if a fingerprint is not known."""
        if not self._database.writing:
            return self._count_rows(connection, where, known)
        change: Any = delete(self._table)
        if letter != DELETED:
            change = update(self._table).values({self._status: _literal(letter)})
        change = change.where(where)
        if known is None or self._rows is None:
            return connection.execute(change).rowcount
        rows = self._rows
        statement = (
            rows.with_returning(connection, change)
            if rows.returns_rows
            else rows.build_select(connection, self._table, where).with_for_update()
        )
        comparison = rows.compare(connection, statement, known)
        if len(comparison.others):
            raise _OtherRowsError(comparison.others)
        return comparison.same if rows.returns_rows else connection.execute(change).rowcount

    def _count_rows(
        self, connection: Connection, where: ColumnElement[bool], known: Ids | None
    ) -> int:
        if known is None or self._rows is None:
            count = select(func.count()).select_from(self._table).where(where)
            return int(connection.execute(count).scalar_one())
        statement = self._rows.build_select(connection, self._table, where)
        comparison = self._rows.compare(connection, statement, known)
        if len(comparison.others):
            raise _OtherRowsError(comparison.others)
        return comparison.same

    def _conditions(self, connection: Connection, step: Step) -> Iterator[ColumnElement[bool]]:
        """Yields for each statement its condition on the id."""
        if isinstance(step, IdRange):
            yield self._id.between(_number(step.low), _number(step.high))
        elif connection.dialect.name == "postgresql":
            yield self._in_array(step.ids)
        else:
            size = self._size().listed
            for start in range(0, len(step.ids), size):
                yield self._in_list(step.ids[start : start + size])

    def _in_array(self, ids: Ids) -> ColumnElement[bool]:
        values: list[int] = ids.tolist()
        type_ = "text" if self._text else "bigint" if self._integer else "numeric"
        # one text is enough, because integers need no quotes
        array: ColumnElement[Any] = literal_column(f"'{{{','.join(map(str, values))}}}'::{type_}[]")
        condition = self._id == any_(array)
        if self._text:
            return condition
        # the planner does not derive this range from the array
        return and_(condition, self._id.between(_number(values[0]), _number(values[-1])))

    def _in_list(self, ids: Ids) -> ColumnElement[bool]:
        values: list[Any] = ids.tolist()
        if not self._text:
            # one text: an element for each id costs eight times as much (measured)
            numbers: ColumnElement[Any] = literal_column(f"({', '.join(map(str, values))})")
            return self._id.op("IN", is_comparison=True)(numbers)
        typeless = isinstance(self._log.relation.types[self._log.record_id], types.NullType)
        as_text = cast(self._id, Text) if typeless else self._id
        return as_text.in_(list(map(str, values)))

    def _has_one_of(self, among: Sequence[str]) -> ColumnElement[bool]:
        wanted = self._status.in_([_literal(letter) for letter in among])
        if not self._indexed:
            return wanted
        # the planner must not use an index on the status: all rows of the log may have N
        return case((wanted, 1), else_=0) == 1

    def _choose_sizes(self) -> Sizes:
        """Chooses the sizes of statements for this table."""
        relation, dialect = self._log.relation, self._database.engine.dialect.name
        with self._errors():
            self._indexed = self._log.record_id in catalogue_of(self._database).index_columns(
                relation
            )
        if dialect == "postgresql":
            return ARRAYS if self._indexed else UNINDEXED_ARRAYS
        allows_long_lists = dialect in _DIALECTS_WITH_LONG_LISTS and not self._text
        return UNINDEXED_LISTS if allows_long_lists and not self._indexed else LISTS

    def _run(self, work: Callable[[Connection], T]) -> T:
        with self._errors():
            return self._database.run(work)

    def _errors(self) -> AbstractContextManager[None]:
        name = self._log.relation.table.name
        return fatal_errors(self._database, f"Writing the status into table {name}")


def _limits(connection: Connection) -> Iterator[str]:
    """Yields settings that limit how long a transaction waits, and how long a halted one blocks others."""
    if connection.dialect.name == "postgresql":
        # while this transaction waits, others wait for it
        yield f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"
        yield f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"
    elif getattr(connection.dialect, "is_mariadb", False):
        # MySQL has no such setting
        yield f"SET SESSION idle_write_transaction_timeout = {IDLE_SECONDS}"


def _number(value: int) -> ColumnElement[Any]:
    # a literal, because a statement whose rows are copied has no parameters
    return literal_column(str(value))


def _literal(letter: str) -> ColumnElement[str]:
    # a literal fits columns of any type, including enumerations
    return literal_column(f"'{letter}'")

"""SQL statements about the rows of a live change table: bounds, counts, rows without a partner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select

from publisher.database.catalogue import Relation, sql_table_of
from publisher.database.connection import Database
from publisher.database.ordered_ranges import fits, value_of
from publisher.formats.change_table.carry_over import FORM
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.live.find_table import LiveTable, relation_of, sorting

Query = Select[*tuple[Any, ...]]
"""A statement that selects any columns."""
_WORDS = {"change_oper": ("B", "U"), "operation": ("BEFOREIMAGE", "UPDATE")}
"""Before image and UPDATE in each of the columns that hold operations."""


@dataclass(frozen=True, slots=True)
class ChangeTableStatements:
    """Builds statements about one change table.

    A range contains the rows whose change_seq is greater than ``after`` and not greater than ``upto``;
    ``None`` means no bound.
    """

    relation: Relation
    seq: str
    """The column change_seq, as the database spells it."""
    kinds: tuple[tuple[str, str], ...]
    """The columns of the operation: documented name, and name as the database spells it."""

    def rows(self, after: str | None, upto: str | None) -> Query:
        """Number of rows, least and greatest change_seq of a range."""
        columns = (func.count(), func.min(self._value), func.max(self._value))
        return self._inside(select(*columns), after, upto)

    def rows_before(self, change_seq: str) -> Query:
        """Number of rows, least and greatest change_seq before ``change_seq``."""
        return self.rows(None, None).where(self._value < change_seq)

    def lone(self, after: str | None, upto: str | None) -> Query:
        """The least change_seq in a range that has UPDATEs but no before image, or the reverse."""
        has_before, has_update = self._count(0), self._count(1)
        by_seq = select(self._value.label("seq"), has_before.label("b"), has_update.label("u"))
        groups = self._inside(by_seq, after, upto).group_by(self._value).subquery()
        alone = or_(and_(groups.c.b > 0, groups.c.u == 0), and_(groups.c.b == 0, groups.c.u > 0))
        return select(func.min(groups.c.seq)).where(alone)

    def before_images(self, after: str | None, upto: str | None) -> Query:
        """Number of before images in a range."""
        return self._inside(select(self._count(0)), after, upto)

    def from_the_end(self, after: str | None, upto: str | None, rows: int) -> Query:
        """The change_seq before the last ``rows`` rows of a range; nothing if there are no more rows."""
        query = self._inside(select(self._value), after, upto)
        return query.order_by(self._value.desc()).offset(rows).limit(1)

    def by_kind(self, after: str | None, upto: str | None) -> Query:
        """Number of rows of a range for each change_seq and operation."""
        kinds = [value_of(self.relation, name) for _, name in self.kinds]
        query = self._inside(select(self._value, func.count(), *kinds), after, upto)
        return query.group_by(self._value, *kinds)

    @property
    def _value(self) -> ColumnElement[Any]:
        return value_of(self.relation, self.seq)

    def _inside(self, query: Query, after: str | None, upto: str | None) -> Query:
        query = query.select_from(sql_table_of(self.relation))
        query = query.where(fits(self.relation, self.seq, FORM))
        if after is not None:
            query = query.where(self._value > after)
        return query if upto is None else query.where(self._value <= upto)

    def _count(self, which: int) -> ColumnElement[Any]:
        """Number of before images (0) or UPDATEs (1), by any column of the operation."""
        matches = or_(
            *(
                func.trim(value_of(self.relation, name)) == _WORDS[known][which]
                for known, name in self.kinds
            )
        )
        return func.coalesce(func.sum(case((matches, 1), else_=0)), 0)


def statements_of(
    database: Database, table: LiveTable, options: ChangeTableOptions
) -> ChangeTableStatements:
    """The statements about a table.  Raises ``FatalError`` if it lacks columns."""
    relation = relation_of(database, table)
    kinds = ((name, relation.column(f"{options.prefix}{name}")) for name in _WORDS)
    known = tuple((name, column) for name, column in kinds if column is not None)
    return ChangeTableStatements(relation, sorting(database, table), known)

"""SQL that logs the rows of child tables under the keys of their parents, for all databases.

The values of an attribute are the distinct values of the child rows of an object that exists:

* A change is logged only for a parent's row that exists.  Rows that the database deletes after their
  parent's row (ON DELETE CASCADE) log nothing, because the delete of the object is logged.
* The key is taken from the parent's row, because collations may treat different texts as equal.
* The removal of a value is logged only if no other row of the object has the value.
* A row that gets another parent is removed from the old one, and added to the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from publisher.database.catalogue import Relation
from publisher.triggers.model import LoggedChild, LoggedTable, Style, literal, quote_name


class SqlForms(NamedTuple):
    """The SQL of a database for expressions of rows, which are given by their aliases."""

    text: Callable[[Relation, str, str], str]
    """The text of a column in the log."""
    key: Callable[[LoggedTable, str], str]
    """The table_key of a row."""
    differ: Callable[[str, str], str]
    """A condition: two texts differ; NULL is equal to NULL only."""
    is_value: Callable[[str], str]
    """A condition: a value is not NULL."""
    quote: Callable[[str], str] = quote_name
    """A name in quotes."""


class CascadedMove(Enum):
    """The events that child rows get when the database links them to the new key of their parent."""

    UPDATE = auto()
    """The same events as if a user had linked the rows to another parent."""
    INSERT = auto()
    """Inserts of values, because the new key is a new object; its ``<add>`` contains them."""
    NONE = auto()
    """None, because the object keeps its values: the change of its key has been logged."""


class ChildEvents:
    """The events of one child table."""

    def __init__(
        self,
        parent: LoggedTable,
        child: LoggedChild,
        log: str,
        style: Style,
        forms: SqlForms,
        cascaded: CascadedMove = CascadedMove.UPDATE,
    ) -> None:
        """``log`` is the name of the log in SQL."""
        self.child = child
        self._parent, self._log, self._style = parent, log, style
        self._forms, self._cascaded = forms, cascaded

    def insert(self) -> list[str]:
        """Logs a new row."""
        return self._each(lambda column: self._addition(column, [self._has_value("NEW", column)]))

    def delete(self) -> list[str]:
        """Logs a deleted row."""
        return self._each(lambda column: self._removal(column, [self._has_value("OLD", column)]))

    def update(self) -> list[str]:
        """Logs a changed row."""
        return self._each(self._changed_row)

    def clear(self) -> list[str]:
        """Logs that the table has lost all rows, for each object."""
        event_type = 3 if self._style is Style.PER_FIELD else self._style.update
        return self._each(lambda column: self._event(column, event_type, None, []))

    def log_existing(self, row: str, key: str, event_type: int) -> list[str]:
        """Logs the values of child rows that are already linked to a new row of the parent."""
        return self._each(lambda column: self._of_rows(row, key, event_type, column))

    def log_left_behind(self, key: str) -> list[str]:
        """Logs the removal of the values of child rows that keep the old key of their parent."""
        return self._each(lambda column: self._of_rows("OLD", key, 2, column, removed=True))

    def _each(self, events: Callable[[str], list[str]]) -> list[str]:
        """Joins the events of the columns of values; events of whole rows have no column (``""``)."""
        if self._style is Style.PER_ROW:
            return events("")
        return [line for column in self.child.columns for line in events(column)]

    def _changed_row(self, column: str) -> list[str]:
        differ = [self._differ(name) for name, _ in self.child.links]
        moved = _any(differ)
        values = [self._differ(name) for name in self._columns(column)]
        by_user = f"{moved} AND {self._was_linked}"  # the old parent of a cascaded row is gone
        logged_move = by_user if self._cascaded is CascadedMove.NONE else moved
        if self._style is Style.PER_FIELD:
            changed = _any([logged_move, *values])
            return [
                *self._removal(column, [self._has_value("OLD", column), changed]),
                *self._addition(column, [self._has_value("NEW", column), changed], may_move=True),
            ]
        return [
            *self._removal(column, [moved]),
            *self._addition(column, [_any([logged_move, *values])], may_move=True),
        ]

    def _addition(self, column: str, where: list[str], *, may_move: bool = False) -> list[str]:
        event_type = str(self._style.update)
        if may_move and column and self._cascaded is CascadedMove.INSERT:
            event_type = (
                f"CASE WHEN {self._was_linked} THEN {event_type} ELSE {self._style.insert} END"
            )
        if self._style is not Style.PER_FIELD:
            return self._event(column, event_type, "NEW", where)
        return self._event(column, event_type, "NEW", where, ("NULL", self._text("NEW", column)))

    def _removal(self, column: str, where: list[str]) -> list[str]:
        if self._style is not Style.PER_FIELD:
            return self._event(column, self._style.update, "OLD", where)
        differ = self._forms.differ(self._text("c", column), self._text("OLD", column))
        is_last = (
            f"NOT EXISTS (SELECT 1 FROM {self._table} AS c"
            f" WHERE {self._link('c', 'p')} AND NOT ({differ}))"
        )
        return self._event(column, 2, "OLD", [*where, is_last], (self._text("OLD", column), "NULL"))

    def _event(
        self,
        column: str,
        event_type: int | str,
        row: str | None,
        where: list[str],
        texts: tuple[str, str] | None = None,
    ) -> list[str]:
        """Logs an event of the parents of a row, or of all parents."""
        parent = self._parent.ref.sql(self._forms.quote)
        linked = [self._link(row, "p")] if row is not None else []
        values = self._values(self._forms.key(self._parent, "p"), event_type, column, texts)
        return self._insert(values, f"{parent} AS p", [*linked, *where])

    def _of_rows(
        self, row: str, key: str, event_type: int, column: str, *, removed: bool = False
    ) -> list[str]:
        """Logs events for the child rows that are linked to a row of the parent."""
        linked = [self._link("c", row), self._has_value("c", column)]
        if self._style is Style.PER_FIELD:
            text = self._text("c", column)
            texts = (text, "NULL") if removed else ("NULL", text)
            values = self._values(key, event_type, column, texts)
            return self._insert(values, f"{self._table} AS c", linked, "DISTINCT ")
        exists = f"EXISTS (SELECT 1 FROM {self._table} AS c WHERE {' AND '.join(linked)})"
        values = self._values(key, event_type, column, None)
        return self._insert(values, "(SELECT 1 AS n) AS o", [exists])

    def _values(
        self, key: str, event_type: int | str, column: str, texts: tuple[str, str] | None
    ) -> dict[str, str]:
        table = self.child if column else self._parent
        values = {
            "table_key": key,
            "event_type": str(event_type),
            "table_name": literal(table.written),
        }
        if column:
            values["column_name"] = literal(column)
        if texts is not None:
            values["old_value"], values["new_value"] = texts
        return values

    def _insert(
        self, values: dict[str, str], table: str, where: Sequence[str], distinct: str = ""
    ) -> list[str]:
        lines = [
            f"INSERT INTO {self._log} ({', '.join(values)})",
            f"SELECT {distinct}{', '.join(values.values())}",
            f"FROM {table}",
            *_conditions(where),
        ]
        return [*lines[:-1], f"{lines[-1]};"]

    @property
    def _table(self) -> str:
        return self.child.ref.sql(self._forms.quote)

    @property
    def _was_linked(self) -> str:
        """A condition: a user has linked the row; the old parent of a cascaded row is gone."""
        parent = self._parent.ref.sql(self._forms.quote)
        exists = f"EXISTS (SELECT 1 FROM {parent} AS o WHERE {self._link('OLD', 'o')})"
        quote, is_value = self._forms.quote, self._forms.is_value
        return _any(
            [exists, *(f"NOT ({is_value(f'OLD.{quote(n)}')})" for n, _ in self.child.links)]
        )

    def _link(self, row: str, parent: str) -> str:
        quote = self._forms.quote
        return " AND ".join(
            f"{parent}.{quote(key)} = {row}.{quote(link)}" for link, key in self.child.links
        )

    def _columns(self, column: str) -> Sequence[str]:
        return [column] if column else self.child.columns

    def _has_value(self, row: str, column: str) -> str:
        return _any(
            self._forms.is_value(f"{row}.{self._forms.quote(name)}")
            for name in self._columns(column)
        )

    def _differ(self, column: str) -> str:
        return self._forms.differ(self._text("OLD", column), self._text("NEW", column))

    def _text(self, row: str, column: str) -> str:
        return self._forms.text(self.child.relation, row, column)


def _any(conditions: Iterable[str]) -> str:
    texts = list(conditions)
    return texts[0] if len(texts) == 1 else f"({' OR '.join(texts)})"


def _conditions(where: Sequence[str]) -> Iterator[str]:
    for place, condition in enumerate(where):
        yield f"{'  AND' if place else 'WHERE'} {condition}"

"""Bodies of the trigger functions in PostgreSQL."""

from __future__ import annotations

from publisher.database.catalogue import Relation
from publisher.model.catalogue import ColumnKind
from publisher.triggers.child_events import CascadedMove, ChildEvents, SqlForms
from publisher.triggers.key_changes import changes_one_column, key_change
from publisher.triggers.model import (
    BLANK_PATTERN,
    DELETE,
    SPECIAL_PATTERN,
    LoggedChild,
    LoggedTable,
    Style,
    TableRef,
    block,
    key_pieces,
    literal,
    quote_name,
)

_PLAIN = frozenset({ColumnKind.INT, ColumnKind.DECIMAL, ColumnKind.STATE, ColumnKind.DATE})
_SPECIAL = f"{SPECIAL_PATTERN}|^{BLANK_PATTERN}|{BLANK_PATTERN}$|^$"


class TableFunction:
    """The body of a table's trigger function."""

    def __init__(self, table: LoggedTable, log: TableRef, style: Style) -> None:
        self._table = table
        self._style = style
        self._log = log.sql()
        self._written = literal(table.written)
        self.children = [
            ChildEvents(table, child, self._log, style, _FORMS, self._cascaded_move(child))
            for child in table.children
        ]

    def _cascaded_move(self, child: LoggedChild) -> CascadedMove:
        if not child.moves_along:
            return CascadedMove.UPDATE
        return CascadedMove.NONE if self._table.joins_keys else CascadedMove.INSERT

    def text(self) -> str:
        """The complete body."""
        place = self._table.ref.sql()
        return f"""\
DECLARE
  old_key text := {self._key("OLD")};
  new_key text := {self._key("NEW")};
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    IF TG_RELID IS DISTINCT FROM to_regclass({literal(place)}) THEN
      RAISE EXCEPTION 'the table was renamed after its triggers were made: make them again';
    END IF;
    INSERT INTO {self._log} (table_key, event_type, table_name)
    SELECT {self._key("t")}, {DELETE}, {self._written}
    FROM {place} AS t;
  ELSIF old_key = new_key THEN
{block(self._update(), 4)}
{self._change_of_key()}  ELSE
    IF old_key IS NOT NULL THEN
      INSERT INTO {self._log} (table_key, event_type, table_name)
      VALUES (old_key, {DELETE}, {self._written});
    END IF;
    IF new_key IS NOT NULL THEN
{self._insert()}
    END IF;
  END IF;
  RETURN NULL;
END
"""

    def _change_of_key(self) -> str:
        """The branch of an update that is logged as a change of the object's key."""
        if not self._table.joins_keys:
            return ""
        values = key_change(self._table, _FORMS, "old_key")
        lines = [
            f"INSERT INTO {self._log} ({', '.join(values)})",
            f"VALUES ({', '.join(values.values())});",
        ]
        if self._style is not Style.PER_FIELD:
            lines += self._event(6)
        else:
            lines += self._update()
            lines += self._existing(2, is_rename=True)
        condition = f"TG_OP = 'UPDATE' AND ({changes_one_column(self._table, _FORMS)})"
        return f"  ELSIF {condition} THEN\n{block(lines, 4)}\n"

    def _existing(self, event_type: int | None, *, is_rename: bool = False) -> list[str]:
        """Logs child rows that are linked to the new key already; a renamed object loses those that stay."""
        lines = []
        for events in self.children:
            if event_type is not None and events.child.may_precede:
                lines += _type_check(self._table, events.child, "c")
                if is_rename:
                    lines += events.log_left_behind("new_key")
                lines += events.log_existing("NEW", "new_key", event_type)
        return lines

    def _key(self, row: str) -> str:
        return _key(self._table, row)

    def _text(self, row: str, column: str) -> str:
        return _text(self._table.relation, row, column)

    def _insert(self) -> str:
        lines = self._existing(self._table.existing_type(self._style))
        return "\n".join([self._own_insert(), *([block(lines, 6)] if lines else [])])

    def _own_insert(self) -> str:
        table, event_type = self._table, self._table.insert_type(self._style)
        if event_type == 5:
            return block(self._event(5), 6)
        if event_type == 7:
            return block(self._fields(7, [[literal(name)] for name in table.columns], ""), 6)
        null_event = self._event(1, table.marker)
        if not table.columns:
            return block(null_event, 6)
        rows = [[literal(name), "NULL", self._text("NEW", name)] for name in table.columns]
        field_events = self._fields(1, rows, "c.new_text IS NOT NULL")
        if_none = ["IF NOT FOUND THEN", *(f"  {line}" for line in null_event), "END IF;"]
        return block([*field_events, *if_none], 6)

    def _update(self) -> list[str]:
        table, style = self._table, self._style
        if not table.columns:
            return ["NULL;"]
        if style is Style.PER_ROW:
            # compares the stored form, because some types have no equality operator
            event = [f"  {line}" for line in self._event(style.update)]
            return ["IF OLD *<> NEW THEN", *event, "END IF;"]
        rows = [
            [literal(name), self._text("OLD", name), self._text("NEW", name)]
            for name in table.columns
        ]
        changed = 'c.old_text COLLATE "C" IS DISTINCT FROM c.new_text COLLATE "C"'
        return self._fields(style.update, rows, changed)

    def _event(self, event_type: int, column: str | None = None) -> list[str]:
        """Returns SQL that logs one event of the new key."""
        names, values = "", ""
        if column is not None:
            names, values = ", column_name", f", {literal(column)}"
        return [
            f"INSERT INTO {self._log} (table_key, event_type, table_name{names})",
            f"VALUES (new_key, {event_type}, {self._written}{values});",
        ]

    def _fields(self, event_type: int, rows: list[list[str]], where: str) -> list[str]:
        """Returns SQL that logs an event for each row that ``where`` accepts.

        A row has column name, old text and new text.
        """
        names = ["place", "name", "old_text", "new_text"][: len(rows[0]) + 1]
        texts = ", old_value, new_value" if event_type <= 2 else ""
        values = ", c.old_text, c.new_text" if event_type <= 2 else ""
        tuples = [f"  ({', '.join([str(n), *row])})" for n, row in enumerate(rows, 1)]
        return [
            f"INSERT INTO {self._log} (table_key, event_type, table_name, column_name{texts})",
            f"SELECT new_key, {event_type}, {self._written}, c.name{values}",
            "FROM (VALUES",
            *(f"{row}," for row in tuples[:-1]),
            tuples[-1],
            f") AS c ({', '.join(names)})",
            *([f"WHERE {where}"] if where else []),
            "ORDER BY c.place;",
        ]


def child_function(parent: LoggedTable, events: ChildEvents) -> str:
    """The body of the function of a child table; a truncated table is logged when it is empty."""
    return f"""\
BEGIN
{block(_type_check(parent, events.child, "p"), 2)}
  IF TG_OP = 'TRUNCATE' THEN
{block(events.clear(), 4)}
  ELSIF TG_OP = 'INSERT' THEN
{block(events.insert(), 4)}
  ELSIF TG_OP = 'UPDATE' THEN
{block(events.update(), 4)}
  ELSE
{block(events.delete(), 4)}
  END IF;
  RETURN NULL;
END
"""


def _type_check(parent: LoggedTable, child: LoggedChild, alias: str) -> list[str]:
    """Raises an error if the other table is no table any more, or if a column has got another type.

    The other table is the parent (``p``) or the child table (``c``).  Reading a row of it prevents further
    changes of its types until the transaction ends.
    """
    own, other = (child, parent) if alias == "p" else (parent, child)
    pairs = child.links if alias == "p" else tuple((key, link) for link, key in child.links)
    place = other.ref.sql()
    own_types = [f"pg_typeof(NEW.{quote_name(n)}) <> {_type(own.relation, n)}" for n, _ in pairs]
    types = [f"pg_typeof({alias}.{quote_name(n)}) <> {_type(other.relation, n)}" for _, n in pairs]
    is_table = f"oid = to_regclass({literal(place)}) AND relkind IN ('r', 'p')"
    error = "'keys have changed after the triggers were made: make them again'"
    return [
        f"IF NOT EXISTS (SELECT FROM pg_class WHERE {is_table}) THEN",
        f"  RAISE EXCEPTION {error};",
        f"ELSIF {' OR '.join(own_types)}",
        f"    OR (SELECT {' OR '.join(types)} FROM {place} AS {alias} LIMIT 1) THEN",
        f"  RAISE EXCEPTION {error};",
        "END IF;",
    ]


def _type(relation: Relation, column: str) -> str:
    return f"regtype {literal(relation.casts[column])}"


_PADDED = ("bpchar", "character")


def _text(relation: Relation, row: str, column: str) -> str:
    value = f"{row}.{quote_name(column)}"
    text = _output_text(relation.casts[column], f"concat({value})")
    if relation.casts[column] in _PADDED and column in relation.table.key:
        # a cast removes padding, too; in columns outside the key the reader removes it
        text = f"rtrim(concat({value}), ' ')"
    return f"CASE WHEN num_nulls({value}) = 0 THEN {text} END"


def _key(table: LoggedTable, row: str) -> str:
    return " || ".join(key_pieces(table, row, _text, _quote_value, _PLAIN))


_FORMS = SqlForms(
    _text,
    _key,
    differ=lambda one, other: f'{one} COLLATE "C" IS DISTINCT FROM {other} COLLATE "C"',
    is_value=lambda value: f"num_nulls({value}) = 0",
)


def _output_text(type_: str, output: str) -> str:
    """SQL of a value's text in the log; ``output`` is SQL that calls the output function of the type."""
    if type_ == "bytea":
        binary = f"decode(substr({output}, 3), 'hex')"
        base64 = f"replace(encode({binary}, 'base64'), chr(10), '')"
        return f"CASE WHEN starts_with({output}, '\\x') THEN {base64} ELSE {output} END"
    if type_ == "boolean":
        return f"CASE {output} WHEN 't' THEN 'true' WHEN 'f' THEN 'false' ELSE {output} END"
    if type_ == "inet":  # a cast writes the length of the network mask
        mask = f"CASE WHEN strpos({output}, ':') = 0 THEN '/32' ELSE '/128' END"
        return f"CASE WHEN strpos({output}, '/') = 0 THEN {output} || {mask} ELSE {output} END"
    return output


def _quote_value(value: str) -> str:
    """SQL of ``keys.quote``."""
    return (
        f"(SELECT CASE WHEN v ~ {literal(_SPECIAL)}"
        r""" THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END"""
        f' FROM (SELECT {value} COLLATE "C") AS k (v))'
    )

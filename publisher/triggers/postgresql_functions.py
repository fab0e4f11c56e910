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

_PLAIN = frozenset({ColumnKind.INT, ColumnKind.STATE, ColumnKind.DATE})  # not 1e+22
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
        table = self._table
        columns = [_is_changed("NEW", table.relation, name) for name in table.relation.types]
        return f"""\
DECLARE
  old_key text;
  new_key text;
{_VARIABLES.format(written=self._written)}BEGIN
  BEGIN
    old_key := {self._key("OLD")};
    new_key := {self._key("NEW")};
    is_changed := {" OR ".join(columns)};
  EXCEPTION WHEN undefined_column OR undefined_object THEN
    is_changed := true;
  END;
{block(_name_check(table.ref), 2)}
  IF TG_OP = 'TRUNCATE' THEN
{block(self._truncate(), 4)}
  ELSIF is_changed THEN
{block(self._unknown_columns(), 4)}
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

    def _unknown_columns(self) -> list[str]:
        """Logs a row of a table that has changed; it is looked up."""
        return [
            f"INSERT INTO {self._log} (table_key, event_type, table_name)",
            "SELECT e.key, e.event_type, written",
            "FROM (VALUES",
            f"  (1, old_key, {DELETE}, old_key IS DISTINCT FROM new_key),",
            "  (2, new_key, 5, old_key IS DISTINCT FROM new_key),",
            "  (3, new_key, 6, old_key = new_key),",
            f"  (4, {_TABLE_CHANGED}, 6, num_nonnulls(old_key, new_key) = 0)",
            ") AS e (place, key, event_type, applies)",
            "WHERE e.applies AND e.key IS NOT NULL",
            "ORDER BY e.place;",
        ]

    def _truncate(self) -> list[str]:
        """Logs the delete of all rows; rows of tables that inherit are not the table's own."""
        place = self._table.ref.sql()
        is_partitioned = "(SELECT relkind FROM pg_class WHERE oid = TG_RELID) = 'p'"
        lines = ["IF is_changed THEN", *_unknown_change(self._log, _TABLE_CHANGED)]
        lines += ["ELSIF row_security_active(TG_RELID) THEN"]
        lines += [*_unknown_change(self._log, _ROWS_HIDDEN), "ELSE"]
        for rows, condition in ((f"ONLY {place}", ""), (place, f" WHERE {is_partitioned}")):
            lines += [
                f"  INSERT INTO {self._log} (table_key, event_type, table_name)",
                f"  SELECT {self._key('t')}, {DELETE}, {self._written}",
                f"  FROM {rows} AS t{condition};",
            ]
        return [*lines, "END IF;"]

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
                existing = events.log_left_behind("new_key") if is_rename else []
                existing += events.log_existing("NEW", "new_key", event_type)
                lines += [
                    *_type_check(self._table, events.child, "c"),
                    "IF is_changed THEN",
                    *(f"  {line}" for line in self._event(6)),
                    "ELSE",
                    *(f"  {line}" for line in existing),
                    "END IF;",
                ]
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


def child_function(parent: LoggedTable, events: ChildEvents, log: TableRef) -> str:
    """The body of the function of a child table; a truncated table is logged when it is empty."""
    return f"""\
DECLARE
{_VARIABLES.format(written=literal(events.child.written))}BEGIN
{block(_type_check(parent, events.child, "p"), 2)}
{block(_name_check(events.child.ref), 2)}
  IF is_changed THEN
{block(_unknown_change(log.sql(), _TABLE_CHANGED), 2)}
  ELSIF TG_OP = 'TRUNCATE' THEN
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


_VARIABLES = """\
  written text := {written};
  is_changed boolean;
"""
_TABLE_CHANGED = literal("changed after its triggers were made, so run xds-publisher ddl again")
_ROWS_HIDDEN = literal("truncated with row-level security, so run xds-publisher verify --repair")
"""Keys that are rejected with their text: events of rows that cannot be identified."""


def _unknown_change(log: str, key: str) -> list[str]:
    """Logs that the table has changed without naming a row: a trigger must not fail."""
    return [
        f"  INSERT INTO {log} (table_key, event_type, table_name)",
        f"  VALUES ({key}, 6, written);",
    ]


def _name_check(table: TableRef) -> list[str]:
    """Notices that the table was renamed; rows of a partition belong to the partitioned table."""
    own = (
        f"TG_TABLE_SCHEMA <> {literal(str(table.schema))} OR TG_TABLE_NAME <> {literal(table.name)}"
    )
    is_partition = "(SELECT relispartition FROM pg_class WHERE oid = TG_RELID)"
    return [
        f"IF ({own}) AND (TG_OP = 'TRUNCATE' OR NOT {is_partition}) THEN",
        "  is_changed := true;",
        "  written := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);",
        "END IF;",
    ]


def _type_check(parent: LoggedTable, child: LoggedChild, alias: str) -> list[str]:
    """Notices that the other table is no table any more, or that a column has got another type or name.

    The other table is the parent (``p``) or the child table (``c``).  Reading a row of it prevents further
    changes of its types until the transaction ends.
    """
    own, other = (child, parent) if alias == "p" else (parent, child)
    pairs = child.links if alias == "p" else tuple((key, link) for link, key in child.links)
    place = other.ref.sql()
    own_types = [f"pg_typeof(NEW.{quote_name(n)}) <> {_type(own.relation, n)}" for n, _ in pairs]
    types = [f"pg_typeof({alias}.{quote_name(n)}) <> {_type(other.relation, n)}" for _, n in pairs]
    columns = own_types if alias == "p" else types
    columns += [
        _is_changed("NEW" if alias == "p" else alias, child.relation, n) for n in child.columns
    ]
    is_table = f"oid = to_regclass({literal(place)}) AND relkind IN ('r', 'p')"
    return [
        "BEGIN",
        f"  is_changed := NOT EXISTS (SELECT FROM pg_class WHERE {is_table});",
        "  IF NOT is_changed THEN",
        f"    is_changed := ({' OR '.join(own_types)}",
        f"      OR (SELECT {' OR '.join(types)} FROM {place} AS {alias} LIMIT 1)) IS TRUE;",
        "  END IF;",
        "EXCEPTION WHEN undefined_column OR undefined_object OR insufficient_privilege THEN",
        "  is_changed := true;",
        "END;",
    ]


def _is_changed(row: str, relation: Relation, column: str) -> str:
    """A condition: a column has got a type whose text is another; raises an error if the column is gone."""
    value = f"{row}.{quote_name(column)}"
    if relation.casts[column] in ("boolean", "bytea", "inet"):
        return f"pg_typeof({value}) IN (regtype 'text', regtype 'varchar')"
    return f"num_nulls({value}) IS NULL"


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
    return output


def _quote_value(value: str) -> str:
    """SQL of ``keys.quote``."""
    return (
        f"(SELECT CASE WHEN v ~ {literal(_SPECIAL)}"
        r""" THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END"""
        f' FROM (SELECT {value} COLLATE "C") AS k (v))'
    )

"""Reads keys: the foreign keys that concern a table, and the key columns of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from sqlalchemy import Connection, TextClause, inspect, text
from sqlalchemy.exc import OperationalError

from publisher.model.classes import ForeignKey, TableKeys
from publisher.model.view_catalogue import TableKeyColumn

_POSTGRESQL = text("""
    SELECT r.relname, con.oid::pg_catalog.text, a.attname, fn.nspname, f.relname, fa.attname
    FROM pg_catalog.pg_constraint con
    JOIN pg_catalog.pg_class r ON r.oid = con.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
    JOIN pg_catalog.pg_class f ON f.oid = con.confrelid
    JOIN pg_catalog.pg_namespace fn ON fn.oid = f.relnamespace
    CROSS JOIN LATERAL unnest(con.conkey, con.confkey) WITH ORDINALITY AS k (own, target, n)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.own
    JOIN pg_catalog.pg_attribute fa ON fa.attrelid = f.oid AND fa.attnum = k.target
    WHERE con.contype = 'f' AND con.conparentid = 0 AND n.nspname = :schema
        AND (r.relname = :name OR f.relname = :name AND fn.nspname = :schema)
    ORDER BY r.relname, con.conname, k.n
""")
_MYSQL = text("""
    SELECT table_name, constraint_name, column_name, NULLIF(referenced_table_schema, table_schema),
        referenced_table_name, referenced_column_name
    FROM information_schema.key_column_usage
    WHERE table_schema = COALESCE(:schema, DATABASE()) AND referenced_table_name IS NOT NULL
        AND (table_name = :name
             OR referenced_table_name = :name AND referenced_table_schema = table_schema)
    ORDER BY table_name, constraint_name, ordinal_position
""")
_SQLITE = text("""
    SELECT m.name, f.id, f."from", NULL, f."table", f."to"
    FROM sqlite_master AS m JOIN pragma_foreign_key_list(m.name) AS f
    WHERE m.type = 'table' AND (m.name = :name OR lower(f."table") = lower(:name))
    ORDER BY m.name, f.id, f.seq
""")
_STATEMENTS: Mapping[str, TextClause] = {
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": _SQLITE,
}
"""Rows of the foreign keys of a table and of those that refer to it: table, key, column, and what it refers
to: schema (NULL for that of the table), table and column (NULL for the primary key)."""

_POSTGRESQL_KEYS = text("""
    SELECT r.relname, a.attname, r.relkind IN ('v', 'm')
    FROM pg_catalog.pg_class r
    JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE n.nspname = :schema
        AND (r.relkind IN ('v', 'm') AND a.attname ILIKE :prefix ESCAPE '!'
             OR EXISTS (SELECT FROM pg_catalog.pg_constraint con
                        WHERE con.conrelid = r.oid AND con.contype = 'p' AND a.attnum = ANY(con.conkey)))
    ORDER BY r.relname, a.attnum
""")
_MYSQL_KEYS = text("""
    SELECT c.table_name, c.column_name, t.table_type = 'VIEW'
    FROM information_schema.columns c
    JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
    WHERE c.table_schema = COALESCE(:schema, DATABASE())
        AND (c.column_key = 'PRI' OR t.table_type = 'VIEW' AND c.column_name LIKE :prefix ESCAPE '!')
    ORDER BY c.table_name, c.ordinal_position
""")
_SQLITE_KEYS = text("""
    SELECT m.name, c.name, 0 FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c
    WHERE m.type = 'table' AND c.pk
""")
_SQLITE_VIEW_KEYS = text(
    "SELECT name FROM pragma_table_info(:view) WHERE name LIKE :prefix ESCAPE '!'"
)
_KEY_PREFIX = "pk!_%"
_KEY_STATEMENTS: Mapping[str, TextClause] = {
    "postgresql": _POSTGRESQL_KEYS,
    "mysql": _MYSQL_KEYS,
    "mariadb": _MYSQL_KEYS,
    "sqlite": _SQLITE_KEYS,
}
"""Rows of key columns: table or view, column, whether it is a column of a view that begins with ``pk_``."""


def read_key_columns(connection: Connection, schema: str | None) -> Sequence[TableKeyColumn]:
    """Reads the key columns of a schema; none from databases that are not known here."""
    statement = _KEY_STATEMENTS.get(connection.dialect.name)
    if statement is None:
        return ()
    rows = connection.execute(statement, {"schema": schema, "prefix": _KEY_PREFIX}).all()
    keys = [TableKeyColumn(table, column, bool(is_of_view)) for table, column, is_of_view in rows]
    return keys if connection.dialect.name != "sqlite" else [*keys, *_sqlite_views(connection)]


def _sqlite_views(connection: Connection) -> Iterator[TableKeyColumn]:
    """Reads the views one by one: SQLite fails to describe a view whose tables have changed."""
    for view in inspect(connection).get_view_names():
        with suppress(OperationalError):
            parameters = {"view": view, "prefix": _KEY_PREFIX}
            for (column,) in connection.execute(_SQLITE_VIEW_KEYS, parameters).all():
                yield TableKeyColumn(view, column, is_of_view=True)


def read_keys(connection: Connection, schema: str | None, name: str) -> TableKeys:
    """Reads the foreign keys that concern a table; none from databases that are not known here."""
    statement = _STATEMENTS.get(connection.dialect.name)
    if statement is None:
        return TableKeys()
    columns: dict[tuple[str, str], list[tuple[str, str | None]]] = {}
    targets: dict[tuple[str, str], str | None] = {}
    for table, key, column, target_schema, target, target_column in connection.execute(
        statement, {"schema": schema, "name": name}
    ):
        place = (str(table), str(key))
        columns.setdefault(place, []).append((column, target_column))
        targets[place] = target if target_schema in (None, schema) else None
    own = [place for place in columns if place[0] == name]
    return TableKeys(
        tuple(_foreign_key(columns[place], targets[place]) for place in own),
        tuple(dict.fromkeys(table for table, key in columns if _refers(targets[table, key], name))),
    )


def _refers(target: str | None, name: str) -> bool:
    return target is not None and target.casefold() == name.casefold()


def _foreign_key(pairs: list[tuple[str, str | None]], target: str | None) -> ForeignKey:
    targets = [column for _, column in pairs if column is not None]
    return ForeignKey(tuple(column for column, _ in pairs), target, tuple(targets))

"""Reads foreign keys: those of a table, and the names of the tables that refer to it."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, TextClause, text

from publisher.model.classes import ForeignKey, TableKeys

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

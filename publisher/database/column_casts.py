"""Reads the names of the types of columns, which PostgreSQL's statements cast values to."""

from __future__ import annotations

from sqlalchemy import Connection, text

_BASE_TYPES = text("""
    WITH RECURSIVE base (name, type) AS (
        SELECT a.attname, a.atttypid
        FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = :schema AND c.relname = :name AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT base.name, t.typbasetype
        FROM base JOIN pg_catalog.pg_type t ON t.oid = base.type AND t.typtype = 'd')
    SELECT base.name, pg_catalog.format_type(t.oid, -1),
           CASE WHEN t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace THEN NULL
                WHEN t.typcategory = 'A' THEN 'a' ELSE t.typtype::pg_catalog.text END
    FROM base JOIN pg_catalog.pg_type t ON t.oid = base.type AND t.typtype <> 'd'
""")


def column_casts(
    connection: Connection, schema: str | None, table: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Reads PostgreSQL's name of each column's base type, and ``Relation.user_types``.

    The names contain no length and precision: a cast with these would truncate or round a value, which
    could then match another row.
    """
    if connection.dialect.name != "postgresql":
        return {}, {}
    rows = connection.execute(_BASE_TYPES, {"schema": schema, "name": table}).all()
    return (
        {str(name): str(type_) for name, type_, _ in rows},
        {str(name): str(kind) for name, _, kind in rows if kind is not None},
    )

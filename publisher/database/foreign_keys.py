"""Reads keys: the foreign keys that concern a table, and the key columns of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import OperationalError

from publisher.database.named_sql import catalogue_query
from publisher.model.classes import ForeignKey, TableKeys
from publisher.model.view_catalogue import TableKeyColumn

_KEY_PREFIX = "pk!_%"


def read_key_columns(connection: Connection, schema: str | None) -> Sequence[TableKeyColumn]:
    """Reads the key columns of a schema; none from databases that are not known here."""
    statement = catalogue_query(connection.dialect.name, "key_columns")
    if statement is None:
        return ()
    rows = connection.execute(statement, {"schema": schema, "prefix": _KEY_PREFIX}).all()
    keys = [TableKeyColumn(table, column, bool(is_of_view)) for table, column, is_of_view in rows]
    return keys if connection.dialect.name != "sqlite" else [*keys, *_sqlite_views(connection)]


def _sqlite_views(connection: Connection) -> Iterator[TableKeyColumn]:
    """Reads the views one by one: SQLite fails to describe a view whose tables have changed."""
    statement = catalogue_query("sqlite", "view_key_columns")
    assert statement is not None
    for view in inspect(connection).get_view_names():
        with suppress(OperationalError):
            parameters = {"view": view, "prefix": _KEY_PREFIX}
            for (column,) in connection.execute(statement, parameters).all():
                yield TableKeyColumn(view, column, is_of_view=True)


def read_keys(connection: Connection, schema: str | None, name: str) -> TableKeys:
    """Reads the foreign keys that concern a table; none from databases that are not known here."""
    statement = catalogue_query(connection.dialect.name, "foreign_keys")
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

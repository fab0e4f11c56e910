"""Reads the columns and keys of tables and views, and caches them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    ColumnClause,
    Connection,
    Inspector,
    TableClause,
    column,
    inspect,
    quoted_name,
)
from sqlalchemy import table as sql_table
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, NoSuchTableError, SAWarning

from publisher.database import failures
from publisher.database.column_kinds import Type, base_type, kind_of, pads
from publisher.database.connection import Database, fatal, fatal_errors
from publisher.database.connection_cache import current_cache
from publisher.database.foreign_keys import read_key_columns, read_keys
from publisher.database.named_sql import catalogue_query
from publisher.errors import ClassRefusedError, TableRefusedError
from publisher.model.catalogue import Table
from publisher.model.classes import TableKeys
from publisher.model.names import equal_in_any_case, find_name
from publisher.model.view_catalogue import TableKeyColumn

_MYSQL = ("mysql", "mariadb")
_MAX_WATCHED = 1_000


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view with the details that SQL statements need; other packages use only ``table``."""

    table: Table
    schema: str | None
    """Schema for statements; ``None`` for the default schema and in databases without schemas."""
    types: Mapping[str, Type]
    """SQL type of each column, domains resolved."""
    casts: Mapping[str, str]
    """PostgreSQL: each column's type in SQL, without length or precision."""
    user_types: Mapping[str, str] = field(default_factory=dict)
    """PostgreSQL: the kind (``typtype``; ``a`` for arrays) of user-defined types, by column."""

    def column(self, name: str) -> str | None:
        """Returns a column's name in the database; the case may differ if only one column matches."""
        return _spelling(self.types, name)


@dataclass(slots=True)
class CatalogueEntries:
    """The cached part of a database's catalogue."""

    run: int = 0
    """The run in which the entries were last checked, see ``ConnectionCache``."""
    relations: dict[tuple[str | None, str], Relation | TableRefusedError | None] = field(
        default_factory=dict
    )
    names: dict[str | None, dict[str, bool]] = field(default_factory=dict)
    """Names of all tables and views by schema; true marks views."""
    key_columns: dict[str | None, Sequence[TableKeyColumn]] = field(default_factory=dict)
    """The key columns of all tables and views by schema."""
    folds: bool | None = None
    """True if the database ignores the case of table names."""
    keys: dict[tuple[str | None, str], TableKeys] = field(default_factory=dict)
    """The foreign keys that concern a table, by schema and name of the table."""
    index_columns: dict[tuple[str | None, str], frozenset[str]] = field(default_factory=dict)
    """The first columns of a table's indexes, by schema and name of the table."""
    watched: set[str] = field(default_factory=set)
    """Names of tables, as written and in lower case, that the stamp covers."""
    stamp: str | None = None
    """Digest of the definitions of all watched tables; ``None`` if unknown."""

    def watch(self, name: str) -> None:
        """Adds a table to those that the stamp covers."""
        if name not in self.watched:
            self.watched |= {name, name.lower()}
            self.stamp = None

    def check(self, connection: Connection) -> None:
        """Removes the tables if the definition of a watched table may have changed since the last check.

        The stamp is read before the tables that it covers, so that no change between both is missed.
        """
        last_stamp, self.stamp = self.stamp, None
        self.names.clear()
        self.key_columns.clear()
        if len(self.watched) > _MAX_WATCHED:
            self.watched.clear()
        statement = catalogue_query(connection.dialect.name, "stamp")
        if statement is not None and self.watched:
            names = {"names": sorted(self.watched)}
            self.stamp = connection.execute(statement, names).scalar_one()
        refused = [
            name for name, entry in self.relations.items() if not isinstance(entry, Relation)
        ]
        if last_stamp is None or self.stamp != last_stamp:
            self.relations.clear()
            self.keys.clear()
            self.index_columns.clear()
        for name in refused:
            self.relations.pop(name, None)


class DatabaseCatalogue:
    """The ``Catalogue`` of a database.

    Names of tables are matched exactly, then in any case if the database ignores case.  Inside
    ``keep_connections`` the tables of PostgreSQL are read again only after a change of their definition.
    """

    closed = True

    def __init__(self, database: Database) -> None:
        self._database = database
        cache, self._entries = current_cache(), CatalogueEntries()
        self._cache = cache
        if cache is not None:
            key = (database.url, database.options.schema)
            self._entries = cache.catalogues.setdefault(key, self._entries)

    @property
    def stamp(self) -> str | None:
        """A digest that changes with the tables that were asked for, as of this run; ``None`` if unknown."""
        return self._current().stamp

    def table(self, schema: str | None, name: str) -> Table | None:
        """Returns the table or view with this name; ``None`` if there is none.

        Raises ``TableRefusedError``, ``UnreachableError`` and ``FatalError``.
        """
        relation = self.relation(schema, name)
        return relation.table if relation is not None else None

    def relation(self, schema: str | None, name: str) -> Relation | None:
        """Returns the table or view for statements; raises the errors of ``table``."""
        schema = schema if schema is not None else self._database.options.schema
        relations = self._current().relations
        if (schema, name) not in relations:
            self._entries.watch(name)
            relations[schema, name] = self._ask(schema, name)
        relation = relations[schema, name]
        if isinstance(relation, TableRefusedError):
            raise relation
        return relation

    def tables_of(self, schema: str | None) -> Sequence[tuple[str, bool]]:
        """Returns the names of the tables and views of a schema; true marks views.

        Raises ``UnreachableError`` and ``FatalError``."""

        def read(connection: Connection) -> list[tuple[str, bool]]:
            inspector = inspect(connection)
            own_schema = schema if schema is not None else self._database.options.schema
            actual = _actual_schema(inspector, own_schema, self._folds_names(connection))
            return sorted(_names(inspector, actual).items())

        with fatal_errors(self._database, "Reading the names of tables"):
            return self._database.run(read)

    def keys_of(self, schema: str | None, name: str) -> TableKeys:
        """Returns the foreign keys that concern a table; raises the errors of ``table``."""
        relation = self.relation(schema, name)
        if relation is None:
            return TableKeys()
        place, keys = (relation.schema, relation.table.name), self._current().keys
        if place not in keys:
            with fatal_errors(self._database, f"Reading the foreign keys of table {name!r}"):
                keys[place] = self._database.run(
                    lambda connection: read_keys(connection, *place), is_query=True
                )
        return keys[place]

    def key_columns_of(self, schema: str | None) -> Sequence[TableKeyColumn]:
        """Returns the key columns of all tables and views of a schema.

        Raises ``UnreachableError`` and ``FatalError``."""

        def read(connection: Connection) -> Sequence[TableKeyColumn]:
            folds = self._folds_names(connection)
            return read_key_columns(connection, _actual_schema(inspect(connection), schema, folds))

        schema = schema if schema is not None else self._database.options.schema
        columns = self._current().key_columns
        if schema not in columns:
            with fatal_errors(self._database, "Reading the keys of all tables"):
                columns[schema] = self._database.run(read)
        return columns[schema]

    def index_columns(self, relation: Relation) -> frozenset[str]:
        """Returns the first columns of a table's key and indexes.

        Raises ``UnreachableError``, and SQLAlchemy's other errors.
        """
        table = relation.table
        key, columns = (relation.schema, table.name), self._current().index_columns
        if key not in columns:

            def read(connection: Connection) -> frozenset[str]:
                indexes = inspect(connection).get_indexes(table.name, relation.schema)
                firsts = [index["column_names"][:1] for index in indexes]
                return frozenset(
                    name for first in [*firsts, table.key[:1]] for name in first if name
                )

            columns[key] = self._database.run(read)
        return columns[key]

    def _current(self) -> CatalogueEntries:
        """Returns the entries, checked once in each run if they are cached."""
        if self._cache is not None and self._entries.run != self._cache.run:
            with fatal_errors(self._database, "Reading the catalogue"):
                self._database.run(self._entries.check, is_query=True)
            self._entries.run = self._cache.run
        return self._entries

    def _ask(self, schema: str | None, name: str) -> Relation | TableRefusedError | None:
        def read(connection: Connection) -> Relation | None:
            with warnings.catch_warnings():
                # SQLAlchemy warns of types that it does not know; they become strings
                warnings.simplefilter("ignore", SAWarning)
                return self._read(connection, schema, name)

        try:
            return self._database.run(read)
        except ClassRefusedError as refused:
            return refused
        except DBAPIError as error:
            action = f"Reading the columns of table {name!r}"
            if failures.is_missing_permission(error) or failures.concerns_statement(error):
                return TableRefusedError(
                    f"{action} failed on {self._database.name}: {self._database.redact(error)}: "
                    "exclude the table, or grant the user SELECT on it"
                )
            raise fatal(self._database, error, action) from error

    def _read(self, connection: Connection, schema: str | None, name: str) -> Relation | None:
        inspector = inspect(connection)
        folds = self._folds_names(connection)
        actual_schema = _actual_schema(inspector, schema, folds)
        names = self._entries.names
        if actual_schema not in names:
            names[actual_schema] = _names(inspector, actual_schema)
        actual_name = _spelling(names[actual_schema], name, folds)
        twins = [own for own in names[actual_schema] if equal_in_any_case(own, actual_name or name)]
        if actual_name is None:
            if folds and len(twins) > 1:
                raise ClassRefusedError(
                    f"table {name!r} may be {' or '.join(map(repr, sorted(twins)))}, whose names differ in"
                    " case only: write the name of one of them"
                )
            return None
        try:
            columns = inspector.get_columns(actual_name, actual_schema)
            constraint = inspector.get_pk_constraint(actual_name, actual_schema)
        except NoSuchTableError:
            return None
        unescape = _unescape if connection.dialect.name in _MYSQL else str
        key = tuple(map(unescape, constraint["constrained_columns"] or ()))
        types_ = {unescape(entry["name"]): base_type(entry["type"]) for entry in columns}
        is_sqlite = connection.dialect.name == "sqlite"
        table = Table(
            schema=self._schema_of_settings(schema) if is_sqlite else actual_schema,
            name=actual_name,
            key=key,
            columns={name: kind_of(type_) for name, type_ in types_.items()},
            complete=True,
            view=names[actual_schema][actual_name],
            padded=frozenset(name for name, type_ in types_.items() if pads(type_)),
            twins=tuple(sorted({*twins} - {actual_name})),
        )
        casts, user_types = _column_casts(connection, actual_schema, actual_name)
        return Relation(table, actual_schema, types_, casts, user_types)

    def _schema_of_settings(self, schema: str | None) -> str | None:
        """Returns the schema as the settings spell it, for databases without schemas."""
        setting = self._database.options.schema
        if setting is not None and schema is not None and setting.casefold() == schema.casefold():
            return setting
        return schema

    def _folds_names(self, connection: Connection) -> bool:
        """Returns whether the database ignores the case of table names."""
        if self._entries.folds is None:
            self._entries.folds = True
            if connection.dialect.name in _MYSQL:
                setting = connection.exec_driver_sql("SELECT @@lower_case_table_names")
                self._entries.folds = setting.scalar() != 0
        return self._entries.folds


_CACHE_KEY = "catalogue"


def catalogue_of(database: Database) -> DatabaseCatalogue:
    """Returns the catalogue of a database, which is created at the first call."""
    catalogue: DatabaseCatalogue | None = database.cache.get(_CACHE_KEY)
    if catalogue is None:
        catalogue = database.cache[_CACHE_KEY] = DatabaseCatalogue(database)
    return catalogue


def sql_column(name: str) -> ColumnClause[Any]:
    """Returns a column for statements, with its name in quotes."""
    return column(quoted_name(name, quote=True))


def sql_table_of(relation: Relation, *columns: ColumnClause[Any]) -> TableClause:
    """Returns the table for statements."""
    schema = None if relation.schema is None else quoted_name(relation.schema, quote=True)
    return sql_table(quoted_name(relation.table.name, quote=True), *columns, schema=schema)


def _actual_schema(inspector: Inspector, schema: str | None, folds: bool) -> str | None:
    """Returns the schema as the database spells it."""
    if inspector.dialect.name == "sqlite":
        return None  # SQLite has no schemas: a given schema only appears in associations
    if schema is None:
        # in MySQL and MariaDB a schema is a database; the default is that of the connection
        return inspector.default_schema_name if inspector.dialect.name == "postgresql" else None
    return _spelling(inspector.get_schema_names(), schema, folds) or schema


def _names(inspector: Inspector, schema: str | None) -> dict[str, bool]:
    """Returns the names of tables and views; true marks views."""
    names = dict.fromkeys(inspector.get_table_names(schema), False)
    names |= dict.fromkeys(inspector.get_view_names(schema), True)
    if isinstance(inspector, postgresql.base.PGInspector):
        names |= dict.fromkeys(inspector.get_materialized_view_names(schema), True)
        names |= dict.fromkeys(inspector.get_foreign_table_names(schema), False)
    return names


def _spelling(names: Iterable[str], wanted: str, folds: bool = True) -> str | None:
    """Finds the name in ``names`` that matches exactly, else the only one that differs in case."""
    names = list(names)
    if wanted in names or not folds:
        return wanted if wanted in names else None
    return find_name(wanted, names)


def _unescape(name: str) -> str:
    # SQLAlchemy returns names as SHOW CREATE TABLE writes them between backticks
    return name.replace("``", "`")


def _column_casts(
    connection: Connection, schema: str | None, table: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Reads PostgreSQL's name of each column's base type, and ``Relation.user_types``.

    The names contain no length and precision: a cast with these would truncate or round a value, which
    could then match another row.
    """
    statement = catalogue_query(connection.dialect.name, "base_types")
    if statement is None:
        return {}, {}
    rows = connection.execute(statement, {"schema": schema, "name": table}).all()
    return (
        {str(name): str(type_) for name, type_, _ in rows},
        {str(name): str(kind) for name, _, kind in rows if kind is not None},
    )

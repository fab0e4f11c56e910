"""Reads the columns and keys of tables and views, and caches them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
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
    text,
    types,
)
from sqlalchemy import table as sql_table
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import DBAPIError, NoSuchTableError, SAWarning

from publisher.database import failures
from publisher.database.connection import Database, fatal
from publisher.errors import TableRefusedError
from publisher.model.catalogue import ColumnKind, Table

Type = types.TypeEngine[Any]

_KINDS: tuple[tuple[type[Type], ColumnKind], ...] = (
    # the order matters for derived classes
    (types.Boolean, ColumnKind.STATE),
    (types.Integer, ColumnKind.INT),
    (mysql.YEAR, ColumnKind.INT),
    (mysql.BIT, ColumnKind.INT),
    (types.Float, ColumnKind.DECIMAL),
    (types.Numeric, ColumnKind.DECIMAL),
    (types.LargeBinary, ColumnKind.OCTET),
    (types.BINARY, ColumnKind.OCTET),
    (types.VARBINARY, ColumnKind.OCTET),
    (mysql.TINYBLOB, ColumnKind.OCTET),
    (mysql.MEDIUMBLOB, ColumnKind.OCTET),
    (mysql.LONGBLOB, ColumnKind.OCTET),
    (types.DateTime, ColumnKind.TIMESTAMP),
    (types.Date, ColumnKind.DATE),
    (types.Time, ColumnKind.TIME),
)


_MYSQL = ("mysql", "mariadb")


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
    made_types: Mapping[str, str] = field(default_factory=dict)
    """PostgreSQL: the kind (``typtype``; ``a`` for arrays) of each user-defined column type."""

    def column(self, name: str) -> str | None:
        """Returns a column's name in the database; the case may differ if only one column matches."""
        return _spelling(self.types, name)


def kind_of(type_: Type) -> ColumnKind:
    """Determines the kind of a column of this SQL type."""
    if is_small_boolean(type_) or (isinstance(type_, mysql.BIT) and type_.length == 1):
        return ColumnKind.STATE
    if isinstance(type_, types.Numeric) and type_.scale == 0 and type_.precision:
        return ColumnKind.INT
    return next((kind for known, kind in _KINDS if isinstance(type_, known)), ColumnKind.STRING)


def is_small_boolean(type_: Type) -> bool:
    """Recognises TINYINT(1), which MySQL and MariaDB use for BOOLEAN."""
    return isinstance(type_, mysql.TINYINT) and getattr(type_, "display_width", None) == 1


class DatabaseCatalogue:
    """The ``Catalogue`` of a database.

    Names of tables are matched exactly, then in any case if the database ignores case.
    """

    closed = True

    def __init__(self, database: Database) -> None:
        self._database = database
        self._relations: dict[tuple[str | None, str], Relation | TableRefusedError | None] = {}
        self._names: dict[str | None, list[str]] = {}
        self._folds: bool | None = None

    def table(self, schema: str | None, name: str) -> Table | None:
        """Returns the table or view; ``None`` if the database has none of this name.

        Raises ``TableRefusedError``, ``UnreachableError`` and ``FatalError``.
        """
        relation = self.relation(schema, name)
        return relation.table if relation is not None else None

    def relation(self, schema: str | None, name: str) -> Relation | None:
        """Returns the table or view for statements; raises the errors of ``table``."""
        wanted = schema if schema is not None else self._database.options.schema
        if (wanted, name) not in self._relations:
            self._relations[wanted, name] = self._ask(wanted, name)
        relation = self._relations[wanted, name]
        if isinstance(relation, TableRefusedError):
            raise relation
        return relation

    def _ask(self, schema: str | None, name: str) -> Relation | TableRefusedError | None:
        def read(connection: Connection) -> Relation | None:
            with warnings.catch_warnings():
                # SQLAlchemy warns of types that it does not know; they become strings
                warnings.simplefilter("ignore", SAWarning)
                return self._read(connection, schema, name)

        try:
            return self._database.run(read)
        except DBAPIError as error:
            doing = f"Reading the columns of table {name!r}"
            if failures.is_refused_right(error) or failures.concerns_statement(error):
                return TableRefusedError(
                    f"{doing} failed on {self._database.name}: {self._database.redact(error)}: "
                    "exclude the table, or grant the user SELECT on it"
                )
            raise fatal(self._database, error, doing) from error

    def _read(self, connection: Connection, schema: str | None, name: str) -> Relation | None:
        inspector = inspect(connection)
        folds = self._folds_names(connection)
        place = _place(inspector, schema, folds)
        if place not in self._names:
            self._names[place] = _names(inspector, place)
        found = _spelling(self._names[place], name, folds)
        if found is None:
            return None
        try:
            columns = inspector.get_columns(found, place)
            constraint = inspector.get_pk_constraint(found, place)
        except NoSuchTableError:
            return None
        bare = _unescape if connection.dialect.name in _MYSQL else str
        key = tuple(map(bare, constraint["constrained_columns"] or ()))
        types_ = {bare(entry["name"]): _base_type(entry["type"]) for entry in columns}
        table = Table(
            schema=self._spelled_schema(schema) if connection.dialect.name == "sqlite" else place,
            name=found,
            key=key,
            columns=_kinds(types_, key),
            complete=True,
            padded=frozenset(name for name, type_ in types_.items() if _pads(type_)),
        )
        casts, made = _casts(connection, place, found)
        return Relation(table, place, types_, casts, made)

    def _spelled_schema(self, schema: str | None) -> str | None:
        """Returns the schema as the settings spell it, for databases without schemas."""
        own = self._database.options.schema
        same = own is not None and schema is not None and own.casefold() == schema.casefold()
        return own if same else schema

    def _folds_names(self, connection: Connection) -> bool:
        """Tells whether the database ignores the case of table names."""
        if self._folds is None:
            self._folds = True
            if connection.dialect.name in _MYSQL:
                setting = connection.exec_driver_sql("SELECT @@lower_case_table_names")
                self._folds = setting.scalar() != 0
        return self._folds


_CACHE_KEY = "catalogue"


def catalogue_of(database: Database) -> DatabaseCatalogue:
    """Returns the catalogue of a database; the same one at each call."""
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


def _place(inspector: Inspector, schema: str | None, folds: bool) -> str | None:
    """Returns the schema as the database spells it."""
    if inspector.dialect.name == "sqlite":
        return None  # SQLite has no schemas: a given schema only appears in associations
    if schema is None:
        # in MySQL and MariaDB a schema is a database; the default is that of the connection
        return inspector.default_schema_name if inspector.dialect.name == "postgresql" else None
    return _spelling(inspector.get_schema_names(), schema, folds) or schema


def _names(inspector: Inspector, place: str | None) -> list[str]:
    names = [*inspector.get_table_names(place), *inspector.get_view_names(place)]
    if isinstance(inspector, postgresql.base.PGInspector):
        names += inspector.get_materialized_view_names(place)
        names += inspector.get_foreign_table_names(place)
    return names


def _spelling(names: Iterable[str], wanted: str, folds: bool = True) -> str | None:
    """Finds the name in ``names`` that matches exactly, else in another case.

    If several names differ only in case, the name in lower case is meant.
    """
    names = list(names)
    if wanted in names or not folds:
        return wanted if wanted in names else None
    lower = wanted.lower()
    alike = [name for name in names if name.lower() == lower]
    if len(alike) == 1:
        return alike[0]
    return lower if lower in alike else None


def _unescape(name: str) -> str:
    # SQLAlchemy leaves names as SHOW CREATE TABLE writes them between backticks
    return name.replace("``", "`")


def _base_type(type_: Type) -> Type:
    """Returns the type on which a domain is based."""
    while isinstance(type_, postgresql.DOMAIN):
        type_ = type_.data_type
    return type_


def _kinds(types_: Mapping[str, Type], key: tuple[str, ...]) -> dict[str, ColumnKind]:
    # a key column has more values than true and false
    return {
        name: ColumnKind.INT if name in key and is_small_boolean(type_) else kind_of(type_)
        for name, type_ in types_.items()
    }


def _pads(type_: Type) -> bool:
    return isinstance(type_, (types.CHAR, types.NCHAR))


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


def _casts(
    connection: Connection, place: str | None, table: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Reads PostgreSQL's name of each column's base type, and ``Relation.made_types``.

    The names contain no length and precision, because a cast to these truncates or rounds the value, which
    could then match another row.
    """
    if connection.dialect.name != "postgresql":
        return {}, {}
    rows = connection.execute(_BASE_TYPES, {"schema": place, "name": table}).all()
    return (
        {str(name): str(type_) for name, type_, _ in rows},
        {str(name): str(made) for name, _, made in rows if made is not None},
    )

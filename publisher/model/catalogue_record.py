"""A record of the tables and keys that a run asked its database for, and a catalogue that answers from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from publisher.errors import ClassRefusedError, TableRefusedError, UsageError
from publisher.model.catalogue import Table
from publisher.model.classes import TableKeys
from publisher.model.names import equal_in_any_case
from publisher.model.plain import restore
from publisher.model.view_catalogue import TableKeyColumn


class KeyCatalogue(Protocol):
    """A catalogue of single tables that knows their keys, as a database does."""

    @property
    def closed(self) -> bool:
        """As ``Catalogue.closed``."""

    def table(self, schema: str | None, name: str) -> Table | None:
        """As ``Catalogue.table``."""

    def keys_of(self, schema: str | None, name: str) -> TableKeys:
        """Returns the foreign keys that concern a table."""

    def key_columns_of(self, schema: str | None) -> Sequence[TableKeyColumn]:
        """Returns the key columns of all tables and views of a schema."""


@dataclass(frozen=True, slots=True)
class TableRecord:
    """The answer for one table.  ``schema`` and ``name`` are as asked."""

    schema: str | None
    name: str
    table: Table | None = None
    refusal: str | None = None
    is_no_class: bool = False
    """The refusal is of the table's name, not of the database."""


@dataclass(frozen=True, slots=True)
class KeysRecord:
    """The foreign keys that concern one table."""

    schema: str | None
    name: str
    keys: TableKeys


@dataclass(frozen=True, slots=True)
class KeyColumnsRecord:
    """The key columns of one schema."""

    schema: str | None
    columns: tuple[TableKeyColumn, ...]


@dataclass(frozen=True, slots=True)
class CatalogueRecord:
    """Everything that tasks asked a catalogue."""

    tables: tuple[TableRecord, ...] = ()
    keys: tuple[KeysRecord, ...] = ()
    key_columns: tuple[KeyColumnsRecord, ...] = ()

    def to_text(self) -> str:
        """Writes the record as sorted lines of JSON, one for each answer."""
        lines = [*map(_table_line, self.tables)]
        lines += [_JSON(["keys", each.schema, each.name, each.keys]) for each in self.keys]
        lines += [_JSON(["key columns", each.schema, each.columns]) for each in self.key_columns]
        return "\n".join(sorted(lines))

    @classmethod
    def from_text(cls, text: str) -> CatalogueRecord:
        """Reads the text of ``to_text``."""
        parts: dict[str, list[Any]] = {"table": [], "keys": [], "key columns": []}
        for line in filter(None, text.split("\n")):
            kind, *values = json.loads(line)
            parts[kind].append(_KINDS[kind](*values))
        return cls(*map(tuple, parts.values()))


def merge_texts(texts: Iterable[str]) -> str:
    """Joins the texts of several records."""
    return "\n".join(sorted({line for text in texts for line in text.split("\n") if line}))


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=sorted).encode
_MAX_LINES = 1_000
_lines: dict[int, tuple[TableRecord, str]] = {}
"""The lines of tables by the identity of their descriptions, which a process shares between its tasks."""


def _table_line(record: TableRecord) -> str:
    """Writes the line of a table; converting a description takes longer than all other steps."""
    known = _lines.get(id(record.table))
    place = (record.schema, record.name)
    if known is not None and (known[0].schema, known[0].name) == place and record.table is not None:
        return known[1]
    table = None if record.table is None else asdict(record.table)
    line = _JSON(["table", *place, table, record.refusal, record.is_no_class])
    if record.table is not None:
        if len(_lines) >= _MAX_LINES:
            _lines.clear()
        _lines[id(record.table)] = (
            record,
            line,
        )  # the record keeps the identity from being used again
    return line


def _restore_table(
    schema: str | None,
    name: str,
    table: dict[str, Any] | None,
    refusal: str | None,
    is_no_class: bool = False,
) -> TableRecord:
    known = None if table is None else restore(Table, table)
    return TableRecord(schema, name, known, refusal, is_no_class)


def _restore_keys(schema: str | None, name: str, keys: Sequence[Any]) -> KeysRecord:
    plain = {"schema": schema, "name": name, "keys": keys}
    return restore(KeysRecord, plain)


def _restore_columns(schema: str | None, columns: Sequence[Any]) -> KeyColumnsRecord:
    return restore(KeyColumnsRecord, {"schema": schema, "columns": columns})


_KINDS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"table": _restore_table, "keys": _restore_keys, "key columns": _restore_columns}
)


class CatalogueRecorder:
    """Passes the answers of a catalogue on, and records them."""

    def __init__(self, catalogue: KeyCatalogue) -> None:
        self._catalogue = catalogue
        self._tables: dict[tuple[str | None, str], TableRecord] = {}
        self._keys: dict[tuple[str | None, str], KeysRecord] = {}
        self._columns: dict[str | None, KeyColumnsRecord] = {}

    @property
    def closed(self) -> bool:
        """As ``Catalogue.closed``."""
        return self._catalogue.closed

    def table(self, schema: str | None, name: str) -> Table | None:
        """As ``Catalogue.table``."""
        place = (schema, name)
        if place not in self._tables:
            try:
                self._tables[place] = TableRecord(*place, self._catalogue.table(schema, name))
            except TableRefusedError as refused:
                self._tables[place] = TableRecord(
                    *place, None, refused.message, isinstance(refused, ClassRefusedError)
                )
        return _answer(self._tables[place])

    def keys_of(self, schema: str | None, name: str) -> TableKeys:
        """As ``KeyCatalogue.keys_of``."""
        place = (schema, name)
        if place not in self._keys:
            self._keys[place] = KeysRecord(*place, self._catalogue.keys_of(schema, name))
        return self._keys[place].keys

    def key_columns_of(self, schema: str | None) -> Sequence[TableKeyColumn]:
        """As ``KeyCatalogue.key_columns_of``."""
        if schema not in self._columns:
            columns = tuple(self._catalogue.key_columns_of(schema))
            self._columns[schema] = KeyColumnsRecord(schema, columns)
        return self._columns[schema].columns

    @property
    def record(self) -> CatalogueRecord:
        """Everything that was asked so far."""
        parts = (self._tables.values(), self._keys.values(), self._columns.values())
        return CatalogueRecord(*map(tuple, parts))  # type: ignore[arg-type]


class RecordedCatalogue:
    """Answers from a record; names are matched exactly, then in any case.

    Raises ``UsageError`` for what nobody asked while the run was recorded."""

    closed = True

    def __init__(self, record: CatalogueRecord) -> None:
        self._record = record

    def table(self, schema: str | None, name: str) -> Table | None:
        """As ``Catalogue.table``."""
        found = _find(self._record.tables, schema, name, lambda each: each.name)
        found = found or _find(
            [each for each in self._record.tables if each.table is not None],
            schema,
            name,
            lambda each: each.table.name if each.table else "",
        )
        if found is None:
            raise self._unknown_error("table", name)
        return _answer(found)

    def keys_of(self, schema: str | None, name: str) -> TableKeys:
        """As ``KeyCatalogue.keys_of``."""
        found = _find(self._record.keys, schema, name, lambda each: each.name)
        if found is None:
            raise self._unknown_error("the foreign keys of table", name)
        return found.keys

    def key_columns_of(self, schema: str | None) -> Sequence[TableKeyColumn]:
        """As ``KeyCatalogue.key_columns_of``."""
        found = _find(self._record.key_columns, schema, "", lambda _: "")
        if found is None:
            raise self._unknown_error("the key columns of schema", schema)
        return found.columns

    def _unknown_error(self, kind: str, name: str | None) -> UsageError:
        return UsageError(
            f"the journal does not describe {kind} {name}, which the run did not need with its own "
            "settings: leave out the setting that needs it, or compare with a replay that uses the database"
        )


class _OfSchema(Protocol):
    @property
    def schema(self) -> str | None: ...


S = TypeVar("S", bound=_OfSchema)


def _find(
    records: Iterable[S], schema: str | None, name: str, name_of: Callable[[S], str]
) -> S | None:
    for equal in (str.__eq__, equal_in_any_case):
        for record in records:
            has_schema = record.schema is not None and schema is not None
            if has_schema and not equal(record.schema or "", schema or ""):
                continue
            if (record.schema is None) == (schema is None) and equal(name_of(record), name):
                return record
    return None


def _answer(record: TableRecord) -> Table | None:
    if record.refusal is not None:
        raise (ClassRefusedError if record.is_no_class else TableRefusedError)(record.refusal)
    return record.table

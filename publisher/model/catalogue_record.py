"""A record of the tables and keys that a run asked its database for, and a catalogue that answers from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, TypeVar

from publisher.errors import TableRefusedError, UsageError
from publisher.model.catalogue import Table
from publisher.model.classes import TableKeys
from publisher.model.names import equal_in_any_case
from publisher.model.plain import restore
from publisher.model.view_catalogue import TableKeyColumn

T = TypeVar("T")


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

    def to_json(self) -> str:
        """Writes the record as compact JSON."""
        content = {name: list(map(asdict, part)) for name, part in self._parts().items()}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=sorted)

    def _parts(self) -> dict[str, tuple[TableRecord | KeysRecord | KeyColumnsRecord, ...]]:
        return {"tables": self.tables, "keys": self.keys, "key_columns": self.key_columns}

    @classmethod
    def from_json(cls, text: str) -> CatalogueRecord:
        """Reads the text of ``to_json``."""
        return restore(cls, json.loads(text))

    @property
    def digest(self) -> str:
        """Names the record."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:32]


def merge_records(records: Iterable[CatalogueRecord]) -> CatalogueRecord:
    """Joins the records of several tasks; the first answer to each question stays."""
    tables: dict[tuple[str | None, str], TableRecord] = {}
    keys: dict[tuple[str | None, str], KeysRecord] = {}
    columns: dict[str | None, KeyColumnsRecord] = {}
    for record in records:
        for table in record.tables:
            tables.setdefault((table.schema, table.name), table)
        for key in record.keys:
            keys.setdefault((key.schema, key.name), key)
        for of_schema in record.key_columns:
            columns.setdefault(of_schema.schema, of_schema)
    parts = (tables.values(), keys.values(), columns.values())
    return CatalogueRecord(*(tuple(sorted(part, key=repr)) for part in parts))  # type: ignore[arg-type]


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
                self._tables[place] = TableRecord(*place, refusal=refused.message)
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
            raise _unknown(f"table {name}")
        return _answer(found)

    def keys_of(self, schema: str | None, name: str) -> TableKeys:
        """As ``KeyCatalogue.keys_of``."""
        found = _find(self._record.keys, schema, name, lambda each: each.name)
        if found is None:
            raise _unknown(f"the foreign keys of table {name}")
        return found.keys

    def key_columns_of(self, schema: str | None) -> Sequence[TableKeyColumn]:
        """As ``KeyCatalogue.key_columns_of``."""
        found = _find(self._record.key_columns, schema, "", lambda _: "")
        if found is None:
            raise _unknown(f"the key columns of schema {schema}")
        return found.columns


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
        raise TableRefusedError(record.refusal)
    return record.table


def _unknown(what: str) -> UsageError:
    return UsageError(
        f"the journal does not describe {what}, which the run did not need with its own settings: leave "
        "out the setting that needs it, or compare with a replay that uses the database"
    )

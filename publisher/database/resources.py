"""The rules of a run, and what a task needs to apply them: catalogue and look-ups."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Protocol, Self, TypeVar

from publisher.database.catalogue import DatabaseCatalogue, catalogue_of
from publisher.database.connection import Database
from publisher.database.lookup import DatabaseLookup
from publisher.database.options import DatabaseOptions
from publisher.masking.masker import Masking
from publisher.model.catalogue import Catalogue, JobCatalogue, LayeredCatalogue, Table
from publisher.model.class_catalogue import ClassCatalogue, without_keys_of_children
from publisher.model.classes import ClassOptions
from publisher.planning.query_back import NO_DATABASE, Lookup
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions


class Closeable(Protocol):
    """Has a thread or a file."""

    def close(self) -> object:
        """Ends it."""


C = TypeVar("C", bound=Closeable)


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for changes and documents that all sources of a run share."""

    documents: DocumentOptions
    envelope: EnvelopeOptions
    values: ValueOptions
    tables: tuple[Table, ...]
    database: DatabaseOptions | None
    classes: ClassOptions = field(default_factory=ClassOptions)
    masking: Masking | None = None
    """``None``: all values are published as they are."""

    def have_classes(self, format_: str) -> bool:
        """Returns whether sources of a format publish the objects of classes instead of rows."""
        tables = self.described_tables
        declared = any(table.children or table.references or table.view for table in tables)
        return declared or self.classes.sync_filter is not None or format_ == "event-log"

    @property
    def described_tables(self) -> tuple[Table, ...]:
        """The tables of the job file, with ``minimal_metadata`` without children and references."""
        if not self.classes.minimal_metadata:
            return self.tables
        return tuple(replace(table, children={}, references={}) for table in self.tables)


class Resources:
    """Catalogue and look-up of a task; a context manager that closes their connections at the end."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._stack = ExitStack()
        self._database = Database(rules.database) if rules.database is not None else None
        self._tables: DatabaseCatalogue | None = None
        self.catalogue: Catalogue = JobCatalogue(rules.described_tables)
        self.lookup: Lookup = NO_DATABASE
        if self._database is not None:
            self._tables = catalogue_of(self._database)
            self.catalogue = LayeredCatalogue(self.catalogue, self._tables)
            self.lookup = DatabaseLookup(self._database)

    def catalogue_of(self, format_: str, tables: Sequence[Table] = ()) -> Catalogue:
        """Returns the catalogue for sources of a format: of classes, or of single tables.

        ``tables`` are those that the settings of the source describe."""
        if not self.rules.have_classes(format_):
            return self._layer(tables)
        tables = without_keys_of_children(tables, self._classes(self.catalogue))
        return self._classes(self._layer(tables))

    def _layer(self, tables: Sequence[Table]) -> Catalogue:
        return LayeredCatalogue(self.catalogue, JobCatalogue(tables)) if tables else self.catalogue

    def _classes(self, catalogue: Catalogue) -> ClassCatalogue:
        rules, tables = self.rules, self._tables
        keys = () if tables is None else (tables.keys_of, tables.key_columns_of)
        return ClassCatalogue(catalogue, rules.described_tables, rules.classes, *keys)

    def lookup_of(self, format_: str, snapshot: str | None) -> Lookup:
        """Returns the look-up for sources of a format: of objects of classes, or of rows.

        For ``snapshot`` see ``DatabaseLookup``."""
        classes = self._classes_of(format_)
        if self._database is None or (classes is None and not snapshot):
            return self.lookup
        return DatabaseLookup(self._database, classes, snapshot)

    def close_at_end(self, user: C) -> C:
        """Closes something that uses these resources before they end."""
        return self._stack.enter_context(closing(user))

    def _classes_of(self, format_: str) -> Catalogue | None:
        return self.catalogue_of(format_) if self.rules.have_classes(format_) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: object, ___: TracebackType | None
    ) -> None:
        self._stack.close()
        if self._database is not None:
            self._database.close()

"""The rules of a run, and what a task needs to apply them: catalogue and look-ups."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.lookup import DatabaseLookup
from publisher.database.options import DatabaseOptions
from publisher.masking.masker import Masking
from publisher.model.catalogue import Catalogue, JobCatalogue, LayeredCatalogue, Table
from publisher.model.catalogue_record import (
    CatalogueRecord,
    CatalogueRecorder,
    KeyCatalogue,
    merge_texts,
)
from publisher.model.class_catalogue import ClassCatalogue, without_keys_of_children
from publisher.model.classes import ClassOptions
from publisher.planning.query_back import NO_DATABASE, BulkLookup
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions, text_of

if TYPE_CHECKING:
    from publisher.engine.recorded_database import RecordedDatabase, RecordedRows


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
    recorded: RecordedDatabase | None = None
    """Answers of the database that take the place of ``database``, from the journal of an earlier run."""
    masking: Masking | None = None
    """``None``: all values are published as they are."""
    catalogue_folder: Path | None = None
    """Folder to which tasks write everything that they asked the catalogue of the database."""

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
        self._rules = rules
        self._stack = ExitStack()
        self._database = Database(rules.database) if rules.database is not None else None
        self._recorder: CatalogueRecorder | None = None
        self._tables = self._open_catalogue()
        self.catalogue: Catalogue = JobCatalogue(rules.described_tables)
        self.lookup: BulkLookup = NO_DATABASE
        if self._tables is not None:
            self.catalogue = LayeredCatalogue(self.catalogue, self._tables)
        if self._database is not None:
            self.lookup = DatabaseLookup(self._database, text_of)

    def _open_catalogue(self) -> KeyCatalogue | None:
        """The catalogue of the database, or of the journal that takes its place."""
        if self._rules.recorded is not None:
            return self._rules.recorded.read_catalogue()
        if self._database is None:
            return None
        if self._rules.catalogue_folder is None:
            return catalogue_of(self._database)
        self._recorder = CatalogueRecorder(catalogue_of(self._database))
        return self._recorder

    def catalogue_of(self, format_: str, tables: Sequence[Table] = ()) -> Catalogue:
        """Returns the catalogue for sources of a format: of classes, or of single tables.

        ``tables`` are those that the settings of the source describe."""
        if not self._rules.have_classes(format_):
            return self._layer(tables)
        tables = without_keys_of_children(tables, self._classes(self.catalogue))
        return self._classes(self._layer(tables))

    def _layer(self, tables: Sequence[Table]) -> Catalogue:
        return LayeredCatalogue(self.catalogue, JobCatalogue(tables)) if tables else self.catalogue

    def _classes(self, catalogue: Catalogue) -> ClassCatalogue:
        rules, tables = self._rules, self._tables
        keys = () if tables is None else (tables.keys_of, tables.key_columns_of)
        return ClassCatalogue(catalogue, rules.described_tables, rules.classes, *keys)

    def lookup_of(self, format_: str, snapshot: str | None) -> BulkLookup:
        """Returns the look-up for sources of a format: of objects of classes, or of rows.

        For ``snapshot`` see ``DatabaseLookup``."""
        classes = self._classes_of(format_)
        if self._database is None or (classes is None and not snapshot):
            return self.lookup
        return DatabaseLookup(self._database, text_of, classes, snapshot)

    def recorded_rows(self, source: int, format_: str) -> RecordedRows | None:
        """Opens the rows that a journal has of a source, given by its number; ``None`` without a journal."""
        recorded = self._rules.recorded
        if recorded is None:
            return None
        return self.close_at_end(recorded.open_rows(source, self._classes_of(format_)))

    def close_at_end(self, user: C) -> C:
        """Closes something that uses these resources before they end."""
        return self._stack.enter_context(closing(user))

    def _classes_of(self, format_: str) -> Catalogue | None:
        return self.catalogue_of(format_) if self._rules.have_classes(format_) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        self._stack.close()
        if self._database is not None:
            self._database.close()
        folder = self._rules.catalogue_folder
        if kind is None and folder is not None and self._recorder is not None:
            _write_record(self._recorder.record, folder)


def _write_record(record: CatalogueRecord, folder: Path) -> None:
    """Writes a record under the name of its content, which many tasks share."""
    text = record.to_text()
    file = folder / hashlib.sha256(text.encode()).hexdigest()
    if not text or file.exists():
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = folder / f"{secrets.token_hex(8)}{_NEW}"
    new.write_text(text, encoding="utf-8")
    new.replace(file)


_NEW = ".new"


def read_catalogue_texts(folder: Path) -> str:
    """Joins the records that tasks wrote, as text."""
    files = folder.iterdir() if folder.is_dir() else ()
    return merge_texts(file.read_text("utf-8") for file in files if file.suffix != _NEW)

"""Describes the classes of a job: their keys, attributes, child tables and references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from publisher.config.settings import Settings
from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.resources import Resources
from publisher.errors import TableRefusedError
from publisher.model.catalogue import Catalogue, Table
from publisher.model.classes import keyed_child_note
from publisher.model.keys import format_key
from publisher.xds.association import suffix

_SHOWN = 10
"""Maximum number of names in a summary."""


@dataclass(frozen=True, slots=True)
class AttributeDescription:
    """An attribute of a class."""

    name: str
    type: str
    """Kind of its values; ``dn`` for references."""
    multiple: bool
    """True if an object has any number of values."""
    target: str | None
    """The association in the values of a reference, with ``…`` for the key; ``None`` for other attributes."""


@dataclass(frozen=True, slots=True)
class ClassDescription:
    """A table or view of a job, which is a class or has a ``problem``."""

    name: str
    schema: str | None
    is_view: bool
    key: tuple[str, ...]
    attributes: tuple[AttributeDescription, ...]
    problem: str | None
    """The reason why the table is part of no class, ending with advice; ``None`` for classes."""


def describe_classes(settings: Settings) -> Iterator[ClassDescription]:
    """Yields the classes of a job by name, and the tables that are part of no class.

    Without a database these are the tables of the job file.
    """
    rules = settings.rules
    with Resources(rules) as resources:
        formats = [source.format for source in settings.sources]
        with_classes = [format_ for format_ in formats if rules.have_classes(format_)]
        catalogue = resources.catalogue_of([*with_classes, *formats][0])
        logs = {source.table for source in settings.sources}
        for schema, name, is_view in _names(settings):
            if logs & {name, f"{schema}.{name}"}:
                continue
            description = _describe(catalogue, schema, name, is_view=is_view)
            if description is not None:
                yield description


def summarize_classes(settings: Settings) -> str:
    """Counts classes, child tables and references; names the tables that are part of no class."""
    described = list(describe_classes(settings))
    classes = [found for found in described if found.problem is None]
    attributes = [attribute for found in classes for attribute in found.attributes]
    multiple = sum(attribute.multiple for attribute in attributes)
    references = sum(attribute.target is not None for attribute in attributes)
    text = (
        f"{len(classes):,} class(es) with {multiple:,} multi-valued attribute(s) and "
        f"{references:,} reference(s)"
    )
    others = [found.name for found in described if found.problem is not None]
    if not others:
        return text
    names = ", ".join([*others[:_SHOWN], *(["…"] if len(others) > _SHOWN else [])])
    return f"{text}; not classes: {names} (xds-publisher classes gives the reasons)"


def keyed_child_notes(settings: Settings) -> Iterator[str]:
    """Yields notes on tables of the database that are classes only because of their primary keys."""
    formats = [source.format for source in settings.sources]
    if settings.database is None or not any(map(settings.rules.have_classes, formats)):
        return
    declared = {child for table in settings.tables for child in table.children}
    with Database(settings.database) as database:
        catalogue = catalogue_of(database)
        for name, is_view in catalogue.tables_of(settings.database.schema):
            if is_view or name in declared:
                continue
            with suppress(TableRefusedError):  # described as no class
                table = catalogue.table(settings.database.schema, name)
                keys = catalogue.keys_of(settings.database.schema, name).foreign_keys
                note = None if table is None else keyed_child_note(table, keys)
                if note is not None:
                    yield note


def _names(settings: Settings) -> Sequence[tuple[str | None, str, bool]]:
    if settings.database is None:
        return [(table.schema, table.name, table.view) for table in settings.tables]
    schema = settings.database.schema
    with Database(settings.database) as database:
        names = catalogue_of(database).tables_of(schema)
    return [(schema, name, is_view) for name, is_view in names]


def _describe(
    catalogue: Catalogue, schema: str | None, name: str, *, is_view: bool
) -> ClassDescription | None:
    """Describes one table; ``None`` for a child table, which appears with its class."""
    try:
        table = catalogue.table(schema, name)
    except TableRefusedError as refused:
        return ClassDescription(name, schema, is_view, (), (), refused.message)
    if table is None or table.parent is not None:
        return None
    problem = None
    if not table.key:
        problem = "it has no primary key: events publish its rows under the keys that they name"
    attributes = [_attribute(table, column) for column in table.columns if column not in table.key]
    return ClassDescription(
        table.name, table.schema, is_view, table.key, tuple(attributes), problem
    )


def _attribute(table: Table, column: str) -> AttributeDescription:
    reference = table.references.get(column)
    is_multiple = table.is_multiple(column)
    if reference is None:
        return AttributeDescription(column, str(table.columns[column]), is_multiple, None)
    key = format_key([(reference.key or "", "…")])
    target = key + suffix(reference.table, reference.schema)
    return AttributeDescription(column, "dn", is_multiple, target)

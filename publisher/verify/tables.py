"""Chooses the tables that documents are compared with, and plans how tasks read them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError, TableRefusedError, UsageError
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.format import FormatOptions
from publisher.formats.triggerless import input_files
from publisher.formats.triggerless.comparison import (
    Comparison,
    TableInput,
    TableWork,
)
from publisher.formats.triggerless.live_tables import live_inputs
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.model.catalogue import Catalogue, Table
from publisher.model.change import Object
from publisher.model.keys import IdentifierCase
from publisher.model.names import equal_in_any_case
from publisher.planning.filters import Filter, FilterOptions
from publisher.verify.associations import AssociationTable
from publisher.verify.compare_table import ComparedTable

BinaryText = Literal["hex", "base64"] | None


@dataclass(frozen=True, slots=True)
class TableSource:
    """A source of a job, as far as it determines tables."""

    number: int
    name: str
    format: str
    options: FormatOptions
    reading: SnapshotOptions
    paths: tuple[Path, ...]
    """Files of the tables; only for sources that compare tables."""
    database: DatabaseOptions | None
    case: IdentifierCase
    filters: FilterOptions
    catalogue: Catalogue

    @property
    def comparison(self) -> TriggerlessOptions | None:
        """The settings of a source that compares tables; ``None`` for sources of other formats."""
        return self.options if isinstance(self.options, TriggerlessOptions) else None

    @property
    def publishes_all(self) -> bool:
        """True if every row of its tables is published when it is first seen."""
        return self.comparison is not None and self.comparison.startup_option != "future"


@dataclass(frozen=True, slots=True)
class PlannedTables:
    """The tables to read, and the same tables as documents show them."""

    comparison: Comparison
    tables: tuple[ComparedTable, ...]
    catalogue: tuple[Table, ...]
    """Descriptions of the tables and of those that they refer to."""
    bytes: int
    """Approximate size of their text."""
    publishes_all: bool
    """True if every row of these tables is published when it is first seen."""


def plan_tables(
    sources: Sequence[TableSource],
    declared: Iterable[Table],
    published: Iterable[AssociationTable],
    target: Path,
    wanted: int,
    stack: ExitStack,
) -> PlannedTables:
    """Plans the reading of all tables; ``stack`` keeps open the snapshots that tasks read.

    These are the tables that sources compare, and the declared and the published ones in the database.

    Raises:
        UsageError: There is no table to compare with.
        FatalError: A table cannot be read.
        UnreachableError: A database does not answer.
    """
    planned = _compared_tables(sources, wanted, stack)
    planned += _other_tables(sources, planned, [*published, *_names_of(declared)], wanted, stack)
    if not planned:
        raise _no_table(sources)
    comparison = Comparison(
        tuple(_work(table) for _, table in planned),
        str(target),
        keep=False,
        binary_text=_binary_text(sources),
        database=_database_of(planned),
    )
    tables = tuple(_compare_table(source, table) for source, table in planned)
    size = sum(table.bytes for _, table in planned)
    whole = all(source.publishes_all for source in sources)
    return PlannedTables(comparison, tables, tuple(_describe_tables(planned)), size, whole)


def _no_table(sources: Sequence[TableSource]) -> UsageError:
    names = ", ".join(f"{source.name} ({source.format})" for source in sources)
    if any(source.database for source in sources):
        return UsageError(
            f"there is no table to compare: {names} has neither triggers of ddl nor a published document;"
            " publish once first, or name the tables in [tables]"
        )
    return UsageError(
        f"there is no table to compare the documents with: {names} cannot read any, so name the database"
        " of the tables in [database] url, and the tables in [tables], or add a source that compares"
        " tables"
    )


Planned = list[tuple[TableSource, TableInput]]


def _database_of(planned: Planned) -> DatabaseOptions | None:
    databases = {source.database for source, table in planned if table.tables[0].live is not None}
    if len(databases) > 1:
        raise UsageError(
            "the sources read tables of several databases: give each database a job of its own"
        )
    return next(iter(databases), None)


def _names_of(declared: Iterable[Table]) -> Iterator[AssociationTable]:
    return (AssociationTable(table.schema, table.name) for table in declared)


def _compared_tables(sources: Iterable[TableSource], wanted: int, stack: ExitStack) -> Planned:
    """Prepares the tables of sources that compare tables."""
    return [
        (source, table)
        for source in sources
        if source.comparison is not None
        for table in _inputs_of(source, wanted, stack)
    ]


def _other_tables(
    sources: Iterable[TableSource],
    planned: Planned,
    candidates: Iterable[AssociationTable],
    wanted: int,
    stack: ExitStack,
) -> Planned:
    """Prepares the tables in the database of sources that do not name them."""
    others = [source for source in sources if source.comparison is None and source.database]
    if not others:
        return []
    known = {(table.shape.schema, table.shape.table) for _, table in planned}
    names = _names_to_compare(others, candidates, known)
    if not names:
        return []
    source = others[0]
    options = TriggerlessOptions(tables=names, identifier_case=source.case)
    source = replace(source, options=options, paths=())
    return [(source, table) for table in _inputs_of(source, wanted, stack)]


def _inputs_of(source: TableSource, wanted: int, stack: ExitStack) -> list[TableInput]:
    assert source.comparison is not None  # the caller has chosen such sources
    options, catalogue = replace(source.comparison, before=()), source.catalogue
    if source.paths:
        by_table = input_files.files_by_table(source.paths, options)
        inputs = input_files.file_inputs(by_table, {}, catalogue, options, source.reading, wanted)
        return list(inputs)
    if source.database is None:
        return []
    return live_inputs(source.database, options, source.reading, catalogue, wanted, stack)


def _binary_text(sources: Iterable[TableSource]) -> BinaryText:
    encodings = {s.comparison.binary_text for s in sources if s.comparison is not None}
    if len(encodings) > 1:
        raise UsageError(
            "sources have different binary_text: give each of them a job of its own to verify"
        )
    return next(iter(encodings), None)


def _names_to_compare(
    sources: Sequence[TableSource],
    candidates: Iterable[AssociationTable],
    known: Collection[tuple[str | None, str]],
) -> tuple[str, ...]:
    """Names the classes of the database that documents may show, each once."""
    source = sources[0]
    filters = [Filter(each.filters, catalogue=each.catalogue) for each in sources]
    names: dict[tuple[str | None, str], str] = {}
    for schema, name in candidates:
        if _is_among(schema, name, known):
            continue
        try:
            table = source.catalogue.table(schema, name)
        except TableRefusedError as refused:
            raise FatalError(f"{refused.message}; or exclude the table") from refused
        if table is None or table.parent is not None:
            continue
        # in documents; names of tables in the database may differ in case only
        apply = source.case.apply
        place = (table.schema and apply(table.schema, table.schema), apply(table.name, table.name))
        equal = str.__eq__ if table.complete else equal_in_any_case
        if _is_among(*place, [*known, *names], equal):
            continue
        if any(_publishes(filter_, schema, name) for filter_ in filters):
            names[place] = ".".join(map(_quote, filter(None, (schema, name))))
    return tuple(names.values())


def _publishes(filter_: Filter, schema: str | None, name: str) -> bool:
    return filter_.publishes_table(Object(schema, name, ""))


def _is_among(
    schema: str | None,
    name: str,
    tables: Iterable[tuple[str | None, str]],
    equal: Callable[[str, str], bool] = str.__eq__,
) -> bool:
    return any(
        equal(name, other) and (schema is None or of is None or equal(schema, of))
        for of, other in tables
    )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _work(table: TableInput) -> TableWork:
    tables = tuple(replace(part, before=()) for part in table.tables)
    return TableWork(replace(table, tables=tables))


def _compare_table(source: TableSource, table: TableInput) -> ComparedTable:
    shape = table.shape
    known = source.catalogue.table(shape.schema, shape.table)
    return ComparedTable(shape, () if known is None else known.key, source.number)


def _describe_tables(planned: Planned) -> Iterator[Table]:
    seen: set[tuple[str | None, str]] = set()
    for source, planned_table in planned:
        shape = planned_table.shape
        table = source.catalogue.table(shape.schema, shape.table)
        if table is None:
            continue
        targets = [
            source.catalogue.table(reference.schema, reference.table)
            for reference in table.references.values()
        ]
        for each in (table, *filter(None, targets)):
            if (each.schema, each.name) not in seen:
                seen.add((each.schema, each.name))
                yield each

"""The shape of a compared table: its columns and key; reads its rows as keys and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError, UsageError
from publisher.model.catalogue import Catalogue, ColumnKind, JobCatalogue, LayeredCatalogue, Table
from publisher.model.change import Reason
from publisher.model.keys import (
    IdentifierCase,
    KeyProblem,
    canonical,
    decimal_text,
    integer_text,
    parse,
)
from publisher.model.names import equal_in_any_case, find_name
from publisher.sources.columns.base64_columns import column_texts
from publisher.sources.columns.key_texts import join_key, quote_values
from publisher.sources.columns.object_names import Names, RecordFault, TargetTable, split_name
from publisher.sources.triggerless.hashing import Hashes, text_hashes
from publisher.sources.triggerless.options import TriggerlessOptions

Mask = npt.NDArray[np.bool_]

_CANONICAL = {
    ColumnKind.INT: r"^(?:0|-?[1-9][0-9]*)$",
    ColumnKind.DECIMAL: r"^(?:0|-?[1-9][0-9]*(?:\.[0-9]*[1-9])?|-?0\.[0-9]*[1-9])$",
}
_NUMBERS: dict[ColumnKind, Callable[[str], str | None]] = {
    ColumnKind.INT: integer_text,
    ColumnKind.DECIMAL: decimal_text,
}


@dataclass(frozen=True, slots=True)
class ComparedKeyColumn:
    """A key column: its names in documents (``name``) and in the input (``read``), and its type."""

    name: str
    read: str
    kind: ColumnKind | None
    padded: bool


@dataclass(frozen=True, slots=True)
class TableShape:
    """Names and types of a compared table."""

    source_name: str
    """Name of the table in the source, which is also the first part of positions."""
    schema: str | None
    table: str
    read: tuple[str, ...]
    """Names in the input of all columns, in their order."""
    key: tuple[ComparedKeyColumn, ...]
    """Key columns, sorted by the code points of their names."""
    columns: tuple[str, ...]
    """Names in documents of the columns outside the key, in the table's order, then of the attributes of
    child tables."""
    others: tuple[str, ...]
    """Names in the input of the columns outside the key."""
    octets: frozenset[str]
    """Names in the input of binary columns."""
    children: tuple[TableShape, ...] = ()
    """Child tables.  Their keys are those of their parents, ``columns`` are names of attributes."""
    multiple: frozenset[str] = frozenset()
    """Columns with any number of values."""
    is_view: bool = False
    """A view that is a class: its rows with one key are one object."""
    key_change_by: tuple[str, ...] = ()
    """Columns whose values identify an object whatever its key is; empty if changed keys are not joined."""

    @property
    def identity(self) -> tuple[str | None, str, tuple[str, ...]]:
        """Schema, table and key, which must agree with those in a stored state."""
        return self.schema, self.table, tuple(part.name for part in self.key)

    @property
    def child_tables(self) -> dict[str, str]:
        """The child table of each attribute of child tables."""
        return {name: child.source_name for child in self.children for name in child.columns}

    def canonical(self, key: str) -> str:
        """Canonicalises a key that a user wrote.  Raises ``UsageError``."""
        kinds = {part.name: str(part.kind) for part in self.key if part.kind is not None}
        names = [part.name for part in self.key]
        try:
            parts = parse(key)
            text = canonical(parts, kinds, IdentifierCase.DATABASE, names)
            if sorted(part.column for part in parse(text)) != names:
                raise KeyProblem(
                    f"the key of {self.source_name} is {', '.join(names)}: write these columns"
                )
        except KeyProblem as problem:
            raise UsageError(f"{key}: {problem}") from problem
        return text


class ComparableRows(NamedTuple):
    """Rows ready for the comparison, and the faults of all other rows."""

    hashes: Hashes
    """Hashes of the keys."""
    keys: pa.Array
    values: list[pa.Array]
    """Text of each column outside the key."""
    faults: dict[int, RecordFault]
    """Faults by row number in the batch; the other fields leave out these rows."""

    def with_keys(self, keys: Sequence[str]) -> ComparableRows:
        """Selects the rows with these keys; keeps all faults."""
        is_selected = pc.is_in(self.keys, pa.array(keys, pa.string()))
        return ComparableRows(
            self.hashes[is_selected.to_numpy(zero_copy_only=False)],
            self.keys.filter(is_selected),
            [column.filter(is_selected) for column in self.values],
            self.faults,
        )


def shape_of(
    table: str,
    columns: Sequence[str],
    catalogue: Catalogue,
    options: TriggerlessOptions,
    where: str,
) -> TableShape:
    """Determines the shape of a table with these columns in the input.

    Raises ``FatalError`` if its key is unknown, or columns do not fit.
    """
    names, target, known = find_table(table, catalogue, options, where)
    spelled, octets = _columns(table, target, columns, names, where)
    key = [_key_part(name, known, spelled, where) for name in known.key]
    inside = {part.read for part in key}
    others = tuple(name for name in columns if name not in inside)
    multiple = frozenset(
        spelled[name] for name in others if known.is_multiple(known.column(name) or name)
    )
    return TableShape(
        source_name=table,
        schema=target.schema,
        table=target.table,
        read=tuple(columns),
        key=tuple(sorted(key, key=lambda part: part.name)),
        columns=tuple(spelled[name] for name in others),
        others=others,
        octets=octets,
        multiple=multiple,
        is_view=known.view_columns is not None,
        key_change_by=_key_change_by(
            table, target, [spelled[n] for n in others], multiple, options, where
        ),
    )


def _key_change_by(
    table: str,
    target: TargetTable,
    columns: Sequence[str],
    multiple: frozenset[str],
    options: TriggerlessOptions,
    where: str,
) -> tuple[str, ...]:
    """Returns the columns of the setting ``key_change_by`` by their names in documents."""
    wanted = next(
        (
            by
            for name, by in options.key_change_by.items()
            if is_name_of(name, target.schema, target.table)
        ),
        (),
    )
    names = [find_name(name, columns) for name in wanted]
    for name, column in zip(wanted, names, strict=True):
        if column is None or column in multiple:
            raise FatalError(
                f"{where}: key_change_by names {name}, which is not a single-valued column of {table} outside"
                " the key: name columns that identify an object whatever its key is"
            )
    return tuple(name for name in names if name is not None)


def is_name_of(text: str, schema: str | None, table: str) -> bool:
    """Tests whether a name such as ``schema.table`` names a table, in any case; an absent schema fits all."""
    parts = split_name(text)
    if parts is None or not equal_in_any_case(parts[1], table):
        return False
    return parts[0] is None or schema is None or equal_in_any_case(parts[0], schema)


class FoundTable(NamedTuple):
    """A compared table in the catalogue."""

    names: Names
    target: TargetTable
    known: Table


def find_table(
    table: str, catalogue: Catalogue, options: TriggerlessOptions, where: str
) -> FoundTable:
    """Finds a table and its key in the catalogue.  Raises ``FatalError`` if there is none."""
    names = Names(_with_keys(catalogue, options), options.schema, options.identifier_case, 1)
    target = names.target(table)
    if isinstance(target, RecordFault):
        raise FatalError(f"{where}: {target.detail}; or name it in tables")
    known = target.known
    if known is None or not known.key:
        raise FatalError(
            f"{where}: the primary key of {table} is unknown; set key in the source or in"
            f" [tables.{target.table}]"
        )
    return FoundTable(names, target, known)


def _columns(
    table: str, target: TargetTable, columns: Sequence[str], names: Names, where: str
) -> tuple[dict[str, str], frozenset[str]]:
    """Returns the names in documents by the names in the input, and the binary columns."""
    spelled: dict[str, str] = {}
    octets = set()
    for name in columns:
        column = names.column(table, target, name)
        if isinstance(column, RecordFault):
            raise FatalError(f"{where}: {column.detail}; or leave the column out of the export")
        if name in spelled or column.name in spelled.values():
            raise FatalError(f"{where}: column {name} appears twice; export it once")
        spelled[name] = column.name
        if column.octet:
            octets.add(name)
    return spelled, frozenset(octets)


def _with_keys(catalogue: Catalogue, options: TriggerlessOptions) -> Catalogue:
    """Returns the catalogue, in which the keys of the settings take precedence."""
    described = []
    for name, key in options.key.items():
        parts = split_name(name)
        if parts is not None:
            described.append(Table(parts[0], parts[1], key))
    if not described:
        return catalogue
    return LayeredCatalogue(JobCatalogue(described), catalogue)


def _key_part(name: str, known: Table, spelled: dict[str, str], where: str) -> ComparedKeyColumn:
    column = known.column(name)
    read = [read for read, column in spelled.items() if column.casefold() == name.casefold()]
    if len(read) != 1:
        raise FatalError(
            f"{where}: the key column {name} of {known.name} {'is missing' if not read else 'appears twice'};"
            " export it once, or fix the key"
        )
    kind = known.columns.get(column) if column is not None else None
    return ComparedKeyColumn(spelled[read[0]], read[0], kind, column in known.padded)


def read_rows(
    shape: TableShape, batch: pa.RecordBatch, binary_text: str | None, where: str
) -> ComparableRows:
    """Reads the rows of a batch that has the columns of ``shape.read``; ``where`` names the input.

    Raises ``FatalError`` if the encoding of binary values in text is unknown.
    """
    faults: dict[int, RecordFault] = {}

    def text(name: str) -> pa.Array:
        column, valid = _column_texts(shape, name, batch.column(name), binary_text, where)
        for row in np.flatnonzero(~valid).tolist():
            faults.setdefault(row, _text_fault(shape, name, binary_text))
        return column

    values = [text(name) for name in shape.others]
    parts = [_key_texts(part, text(part.read), faults) for part in shape.key]
    keys = join_key([part.name for part in shape.key], parts)
    if faults:
        is_readable = np.ones(batch.num_rows, bool)
        is_readable[list(faults)] = False
        mask = pa.array(is_readable)
        keys, values = keys.filter(mask), [column.filter(mask) for column in values]
    return ComparableRows(text_hashes(keys), keys, values, faults)


def _text_fault(shape: TableShape, name: str, binary_text: str | None) -> RecordFault:
    if name in shape.octets and binary_text is not None:
        form = "hex" if binary_text == "hex" else "Base64"
        return RecordFault(
            Reason.VALUE, f"the binary column {name} does not hold {form}; export it again"
        )
    return RecordFault(
        Reason.BROKEN_RECORD,
        f"{name} is not text; export it as UTF-8 text, or declare it octet in [tables]",
    )


def _key_texts(
    part: ComparedKeyColumn, values: pa.Array, faults: dict[int, RecordFault]
) -> pa.Array:
    """Returns the canonical values of a key column; null for faulty values."""
    for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
        faults.setdefault(
            row, RecordFault(Reason.TABLE_KEY, f"the key column {part.read} is NULL; fix the key")
        )
    if part.kind in _NUMBERS:
        return _numbers(part, part.kind, values, faults)
    if part.padded:
        values = pc.utf8_rtrim(values, " ")
    return quote_values(values)


def _numbers(
    part: ComparedKeyColumn, kind: ColumnKind, values: pa.Array, faults: dict[int, RecordFault]
) -> pa.Array:
    canonical_already = pc.fill_null(pc.match_substring_regex(values, _CANONICAL[kind]), True)
    if pc.all(canonical_already).as_py():
        return values
    numbers: list[str | None] = []
    for row, value in enumerate(values.to_pylist()):
        number = None if value is None else _NUMBERS[kind](value)
        if number is None and value is not None:
            detail = f"{value[:40]!r} in the key column {part.read} is not a number; fix the value"
            faults.setdefault(row, RecordFault(Reason.TABLE_KEY, detail))
        numbers.append(number)
    return pa.array(numbers, pa.string())


def _column_texts(
    shape: TableShape, name: str, array: pa.Array, binary_text: str | None, where: str
) -> tuple[pa.Array, Mask]:
    """Returns the text of a column, binary values as Base64, and a mask of valid values."""
    return column_texts(
        array,
        f"{where}: column {name} of {shape.source_name}",
        octet=name in shape.octets,
        untyped=False,  # some engines write text as bytes
        binary_text=binary_text,
    )

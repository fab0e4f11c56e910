"""The columns of replicated tables, from a delimited export of DISPATCH_ATTRS.

As documented, the source server fills this table with one row per replicated column: number of the table,
name and number of the column, code of its type, flag of the primary key, bytes.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from publisher.errors import OptionProblem, OptionsError, refuse_options
from publisher.formats.dispatch_queue.images.column_types import (
    BY_LENGTH,
    CODES,
    NATIONAL,
    NUMBERS,
    VARIABLE,
    ImageColumn,
)
from publisher.formats.dispatch_queue.options import DispatchQueueOptions, QueueTable, first_of_each
from publisher.formats.dispatch_queue.rows.rows import PADDING
from publisher.formats.files.csv_records import fields, scan
from publisher.formats.files.options import SnapshotOptions

COLUMNS = ("TABNUM_SRC", "NAME", "ATRNUM", "TYP", "PKEY", "LEN")


class AttributeRow(NamedTuple):
    """One row of DISPATCH_ATTRS."""

    table: int
    name: str
    number: int
    code: int
    key: bool
    length: int


def with_attributes(
    options: DispatchQueueOptions, directory: Path, reading: SnapshotOptions
) -> DispatchQueueOptions:
    """Returns the options with the tables of their ``attributes`` file, a path relative to ``directory``.

    The result has the tables instead of the path, so that a changed file counts as changed settings.

    Raises ``OptionsError``.
    """
    if options.attributes is None:
        return options
    path = directory / options.attributes.expanduser()
    try:
        text = path.read_text(reading.encoding)
    except OSError as error:
        raise _refusal(f"{path}: {error.strerror}; write the path of the export") from None
    except UnicodeError:
        raise _refusal(f"{path} is not {reading.encoding}; set encoding") from None
    attributes: dict[int, list[AttributeRow]] = {}
    for attribute in _attributes(text, str(path), reading):
        attributes.setdefault(attribute.table, []).append(attribute)
    return _with_tables(options, attributes, str(path))


def _with_tables(
    options: DispatchQueueOptions, attributes: dict[int, list[AttributeRow]], path: str
) -> DispatchQueueOptions:
    """Adds the tables.  Raises ``OptionsError`` with all missing settings of row images."""
    of_any_node = {table.number for table in options.tables if table.node is None}
    added = [QueueTable(number) for number in attributes if number not in of_any_node]
    entries = [table for table in (*options.tables, *added) if table.number in attributes]
    without_columns = {
        table.number: attributes[table.number] for table in entries if not table.columns
    }
    missing = list(_length_problem(options, without_columns))
    numbers = list(attributes)
    entries.sort(key=lambda table: numbers.index(table.number))
    tables = [_describe(table, attributes[table.number], options, path) for table in entries]
    others = [table for table in options.tables if table.number not in attributes]
    try:
        described = replace(options, attributes=None, tables=(*tables, *others))
    except OptionsError as error:
        raise OptionsError(*first_of_each([*missing, *error.problems])) from None
    refuse_options(missing)
    return described


def _length_problem(
    options: DispatchQueueOptions, tables: dict[int, list[AttributeRow]]
) -> Iterator[OptionProblem]:
    """Asks for ``length_counted`` if a column's type depends on it."""
    for attribute in (attribute for attributes in tables.values() for attribute in attributes):
        if options.length_counted is None and CODES.get(attribute.code) in VARIABLE:
            yield OptionProblem(
                "length_counted",
                f"is required for column {attribute.name} of table {attribute.table}, since no page "
                "documents whether LEN includes the length before the value; write true or false",
            )
            return


def _refusal(text: str) -> OptionsError:
    return OptionsError(OptionProblem("attributes", text))


def _lines(text: str, path: str, reading: SnapshotOptions) -> Iterator[tuple[int, list[str]]]:
    """Yields lines with their numbers."""
    data = text.removeprefix("\ufeff").encode()
    piece = scan(data, reading, final=True)
    for index, (start, stop) in enumerate(zip(piece.starts, piece.stops, strict=True)):
        if index in piece.wrong:
            raise _refusal(f"{path}, line {index + 1}: {piece.wrong[index]}")
        yield index + 1, fields(data[start:stop], reading)


def _attributes(text: str, path: str, reading: SnapshotOptions) -> Iterator[AttributeRow]:
    lines = _lines(text, path, reading)
    _, names = next(lines, (1, []))
    header = [name.strip().upper() for name in names]
    absent = [name for name in COLUMNS if header.count(name) != 1]
    if absent:
        raise _refusal(
            f"{path} has no column {', '.join(absent)}; export DISPATCH_ATTRS with a"
            " header of its column names"
        )
    places = [header.index(name) for name in COLUMNS]
    for line, values in lines:
        if not any(value.strip() for value in values):
            continue
        try:
            texts = (values[place].strip(string.whitespace + PADDING) for place in places)
            table, name, number, code, key, length = texts
            yield AttributeRow(int(table), name, int(number), int(code), int(key) != 0, int(length))
        except (ValueError, IndexError):
            raise _refusal(
                f"{path}, line {line}: integers and a name are expected, such as 7,idu,1,2,1,4"
            ) from None


def _describe(
    table: QueueTable, attributes: list[AttributeRow], options: DispatchQueueOptions, path: str
) -> QueueTable:
    """Completes a table that the job file does not fully describe."""
    if table.columns:
        return table
    ordered = sorted(attributes, key=lambda attribute: attribute.number)
    numbers = tuple(attribute.number for attribute in ordered)
    if len(set(numbers)) < len(numbers):
        raise _refusal(f"{path} has a column of table {table.number} twice")
    columns = tuple(_column(attribute, options, path).text for attribute in ordered)
    key = table.key or tuple(attribute.name for attribute in ordered if attribute.key)
    return replace(table, columns=columns, key=key, numbers=table.numbers or numbers)


def _column(attribute: AttributeRow, options: DispatchQueueOptions, path: str) -> ImageColumn:
    """Derives a column from the code and the length of its type."""
    code, length = attribute.code, attribute.length
    kind = BY_LENGTH.get((code, length)) or CODES.get(code)
    where = f"column {attribute.name} of table {attribute.table}"
    if kind is None or (kind in NUMBERS and NUMBERS[kind] != length):
        raise _refusal(
            f"{path}: {where} has TYP {code} and LEN {length}, which is not a known"
            " type; describe the table's columns in [[sources.tables]]"
        )
    if kind in NUMBERS:
        return ImageColumn(attribute.name, kind)
    if kind in VARIABLE:
        length -= options.length_bytes if options.length_counted else 0
    if kind in NATIONAL:
        length //= 2
    if length < 1:
        raise _refusal(f"{path}: {where} has LEN {attribute.length}; fix the export")
    return ImageColumn(attribute.name, kind, length)

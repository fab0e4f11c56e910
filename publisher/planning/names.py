"""What planning knows of the tables, columns and keys of one source: each is looked at once, and numbered.

No rule compares names: globs, catalogue, classes and the case of identifiers are asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.arrays import BoolArray, Int64Array, booleans, numbered
from publisher.model.catalogue import Table
from publisher.model.change import Object, Position, Reason
from publisher.model.classes import ClassOptions
from publisher.model.event_ids import IdOrigin
from publisher.model.keys import IdentifierCase, parse
from publisher.model.names import equal_in_any_case
from publisher.planning.characters import is_verbatim
from publisher.planning.filters import Filter
from publisher.planning.rendered_columns import ColumnRenderer, RenderedColumn
from publisher.xds.association import association, suffix
from publisher.xds.escape import ValueProblem, escape_attribute, escape_text, refuse_long


@dataclass(frozen=True, slots=True)
class SourceNaming:
    """The name of a source, the origin of its event ids, and the notation of its positions."""

    source: str
    position_text: Callable[[Position], str] = Position.text
    joins_keys: bool = False
    """True if changes of keys are published: a delete then ends its document, because another object may
    get the key before the next operation."""
    origin: IdOrigin = field(kw_only=True)


class PlannedTable(NamedTuple):
    """A table, or a class."""

    schema: str | None
    name: str
    is_published: bool
    ends_children: bool
    """True if updates of its child tables are ignored after the delete of an object."""


class PlannedColumn(NamedTuple):
    """A column of a table.  ``rendered`` is ``None`` if it cannot be published, because of ``problem``."""

    name: str
    rendered: RenderedColumn | None
    problem: ValueProblem | None
    is_published: bool
    is_in_row: bool
    """True if a query-back of the row publishes it, unless it belongs to the key."""

    @property
    def is_multiple(self) -> bool:
        """See ``RenderedColumn``."""
        return self.rendered is not None and self.rendered.is_multiple


class ObjectNames(NamedTuple):
    """The objects of some changes, in the order of their numbers."""

    table: Int64Array
    key: pa.StringArray
    association: pa.StringArray
    """Plain text; null if it cannot be written."""
    xml: pa.StringArray
    problems: dict[int, ValueProblem]
    """Why an object's name cannot be written."""


class SourceNames:
    """The numbers of tables and columns."""

    def __init__(
        self,
        columns: ColumnRenderer,
        filter_: Filter,
        classes: ClassOptions,
        case: IdentifierCase,
        *,
        limits_length: bool = True,
    ) -> None:
        """``limits_length`` refuses keys that parsers of XML refuse by default."""
        self._rendered = columns
        self._filter = filter_
        self._ignores_children = classes.child_after_delete == "ignore"
        self._case = case
        self._limits_length = limits_length
        self.tables: list[PlannedTable] = []
        self.columns: list[PlannedColumn] = []
        self._tables: dict[tuple[str | None, str], int] = {}
        self._columns: dict[tuple[int, str], int] = {}

    def number_tables(self, schemas: pa.StringArray, names: pa.StringArray) -> Int64Array:
        """Numbers the table of each row."""
        schema, schema_texts = numbered(schemas)
        name, name_texts = numbered(names)
        pair, pairs = numbered(pa.array(schema * len(names) + name))
        texts = schema_texts.to_pylist(), name_texts.to_pylist()
        numbers = [
            self.table(texts[0][code // len(names)], texts[1][code % len(names)])
            for code in pairs.to_pylist()
        ]
        return np.array(numbers, np.int64)[pair]

    def number_columns(self, table: Int64Array, names: pa.StringArray) -> Int64Array:
        """Numbers the column of each row; -1 for rows without a name."""
        name, texts = numbered(names)
        pair, pairs = numbered(pa.array(table * len(texts) + name))
        name_texts = texts.to_pylist()
        numbers = [
            self.column(code // len(texts), name_texts[code % len(texts)])
            for code in pairs.to_pylist()
        ]
        return np.array(numbers, np.int64)[pair]

    def table(self, schema: str | None, name: str) -> int:
        """The number of a table."""
        number = self._tables.get((schema, name))
        if number is None:
            number = self._tables[schema, name] = len(self.tables)
            obj = Object(schema, name, "")
            published = self._filter.publishes_table(obj)
            self.tables.append(PlannedTable(schema, name, published, self._ends_children(obj)))
        return number

    def column(self, table: int, name: str | None) -> int:
        """The number of a column of a table; -1 without a name."""
        if name is None:
            return -1
        number = self._columns.get((table, name))
        if number is None:
            number = self._columns[table, name] = len(self.columns)
            self.columns.append(self._describe(table, name))
        return number

    def object_of_table(self, table: int, key: str = "") -> Object:
        """An object of a table by the table's number."""
        return Object(self.tables[table].schema, self.tables[table].name, key)

    def objects(self, table: Int64Array, key: pa.StringArray) -> ObjectNames:
        """Names objects by their tables and canonical keys."""
        suffixes = [suffix(each.name, each.schema) for each in self.tables]
        is_plain = np.array(
            [self._is_plain(each, text) for each, text in zip(self.tables, suffixes, strict=True)]
        )
        plain = pc.binary_join_element_wise(
            key, pa.array(suffixes, pa.string()).take(pa.array(table)), ""
        )
        odd = ~is_verbatim(plain) | ~is_plain[table]
        odd |= booleans(pc.match_substring(key, "+"))
        names, xml, problems = [], [], {}
        for number in np.flatnonzero(odd).tolist():
            obj = self.object_of_table(int(table[number]), key[number].as_py())
            name = text = None
            try:
                name = association(obj, self._key_order(obj))
                text = self._xml_of(obj, name)
            except ValueProblem as problem:
                problems[number] = problem
            names.append(name)
            xml.append(text)
        if not names:
            return ObjectNames(table, key, plain, plain, problems)
        written = pc.replace_with_mask(plain, odd, pa.array(xml, pa.string()))
        plain = pc.replace_with_mask(plain, odd, pa.array(names, pa.string()))
        return ObjectNames(table, key, plain, written, problems)

    def association(self, obj: Object) -> str:
        """The association of an object as plain text.  Raises ``ValueProblem`` if it cannot be written."""
        name = association(obj, self._key_order(obj))
        self._xml_of(obj, name)
        return name

    def column_flags(self, has: Callable[[PlannedColumn], bool]) -> BoolArray:
        """Flags columns by number; false at the end, for the number -1."""
        return np.array([*map(has, self.columns), False], np.bool_)

    def read_columns(
        self, table: int, read: tuple[str, ...], *, named: str | None, key: tuple[str, ...]
    ) -> list[tuple[int, int]]:
        """The columns of a row that a query-back publishes: their places in ``read``, and their numbers.

        ``named`` is the column of a field query-back; a query-back of the row reads all but the ``key``.
        Raises ``ValueProblem``."""
        found: list[tuple[int, int]] = []
        names = key if named is None else (named,)
        matches = {match for name in names for match in _same_name(name, read)}
        if named is not None and not matches:
            raise _unknown_column(self.tables[table].name, named)
        for place, name in enumerate(read):
            if (name in matches) is (named is not None):
                number = self.column(table, self._case.apply(name, name))
                problem = self.columns[number].problem
                if problem is not None:
                    raise problem
                if self.columns[number].is_published:
                    found.append((place, number))
        return found

    def _describe(self, table: int, name: str) -> PlannedColumn:
        obj = self.object_of_table(table)
        known = self._catalogue_table(obj)
        is_in_row = "." not in name or (known is not None and known.column(name) is not None)
        rendered = problem = None
        published = self._filter.publishes_column(obj, name)
        try:
            rendered = self._rendered.column(obj, name)
        except ValueProblem as error:
            problem = error
        return PlannedColumn(name, rendered, problem, published, is_in_row)

    def _ends_children(self, obj: Object) -> bool:
        table = self._catalogue_table(obj) if self._ignores_children else None
        return table is not None and any(map(table.is_multiple, table.columns))

    def _catalogue_table(self, obj: Object) -> Table | None:
        with suppress(ValueProblem):  # its changes are rejected
            return self._rendered.known_table(obj)
        return None

    def _key_order(self, obj: Object) -> tuple[str, ...]:
        """Columns of a compound primary key in their order."""
        if "+" not in obj.key:
            return ()
        table = self._rendered.known_table(obj)
        return table.key if table is not None else ()

    def _is_plain(self, table: PlannedTable, text: str) -> bool:
        """Returns whether XML needs no escapes in the part of associations that a table's objects share."""
        try:
            return escape_text(text) == text and bool(escape_attribute(table.name))
        except ValueProblem:
            return False

    def _xml_of(self, obj: Object, name: str) -> str:
        text = escape_text(name, "the key")
        if self._limits_length:
            refuse_long(name, "the key")
        escape_attribute(obj.table)
        return text


def key_columns(key: str) -> tuple[str, ...]:
    """The columns of a canonical key.

    >>> key_columns("idu=1"), key_columns('a=1+b="x=y"')
    (('idu',), ('a', 'b'))
    """
    name, _, value = key.partition("=")
    if '"' in key or "+" in value:
        return tuple([part.column for part in parse(key)])
    return (name,)


def key_forms(keys: pa.StringArray) -> tuple[Int64Array, list[tuple[str, ...]]]:
    """The columns of each key: a number for each key, and the columns by number."""
    forms: dict[tuple[str, ...], int] = {}
    number, names = numbered(pc.list_element(pc.split_pattern(keys, "=", max_splits=1), 0))
    of_name = [forms.setdefault((name,), len(forms)) for name in names.to_pylist()]
    form = np.array(of_name, np.int64)[number]
    is_odd = pc.match_substring_regex(keys, r'^"|\+')  # a quoted name, or perhaps several columns
    for row in np.flatnonzero(booleans(is_odd)).tolist():
        form[row] = forms.setdefault(key_columns(keys[row].as_py()), len(forms))
    return form, [*forms]


def _same_name(name: str, columns: tuple[str, ...]) -> list[str]:
    """The column of this name, else the columns whose names differ only in case."""
    return (
        [name] if name in columns else [each for each in columns if equal_in_any_case(each, name)]
    )


def _unknown_column(table: str, name: str) -> ValueProblem:
    advice = "fix the trigger that logs it"
    if "." in name:
        advice = "make it a column of a child table of the class, which the command classes shows"
    return ValueProblem(Reason.COLUMN_NAME, f"table {table!r} has no column {name!r}: {advice}")

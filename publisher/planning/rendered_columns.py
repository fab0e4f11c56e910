"""The columns of tables as documents show them: their names in XML and the forms of their values."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from publisher.errors import TableRefusedError
from publisher.model.catalogue import Catalogue, ColumnKind, Reference, Table
from publisher.model.change import Object, Reason
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import Filter
from publisher.planning.masked_columns import (
    ColumnMasks,
    Mask,
    canonical_text,
    masked_converter,
)
from publisher.planning.query_back import CurrentValue
from publisher.xds.escape import ValueProblem, escape_attribute
from publisher.xds.references import ReferenceTarget, reference_converter
from publisher.xds.values import Converter, Values, limit_length


class RenderedColumn(NamedTuple):
    """A column of a table: its name in XML, the converter of its values, whether it is published."""

    name: str
    convert: Converter
    is_published: bool
    is_multiple: bool = False
    """True for an attribute of any number of values: of a child table, or ``mv_`` of a view."""

    def convert_current(self, value: CurrentValue) -> str | None:
        """Converts a value to its elements; ``None`` if there is no value.  Raises ``ValueProblem``."""
        if isinstance(value, tuple):
            return "".join([self.convert(text) for text in value]) or None
        return None if value is None else self.convert(value)


class ColumnRenderer:
    """Finds the rendered columns of the tables of one source, each once."""

    def __init__(
        self,
        case: IdentifierCase,
        values: Values,
        filter_: Filter,
        catalogue: Catalogue,
        masks: ColumnMasks | None = None,
    ) -> None:
        """Without ``masks`` all values are published as they are."""
        self.masks = masks
        self._case = case
        self._values = values
        self._filter = filter_
        self._catalogue = catalogue
        self._tables: dict[tuple[str | None, str], dict[str, RenderedColumn]] = {}

    def of_table(self, obj: Object) -> dict[str, RenderedColumn]:
        """The columns of an object's table that were found so far."""
        return self._tables.setdefault(obj[:2], {})

    def column(self, obj: Object, name: str) -> RenderedColumn:
        """A column of the object's table.

        Raises ``ValueProblem`` if XML forbids its name, or if it is gone since the record was read."""
        columns = self.of_table(obj)
        if name not in columns:
            columns[name] = self._column(obj, name)
        return columns[name]

    def text_mask(self, obj: Object, name: str) -> Mask | None:
        """The mask of the texts of a column, which gives the masks that documents show.

        ``None`` if documents show its values."""
        mask = None if self.masks is None else self.masks.of_value(obj, name)
        if mask is None:
            return None
        with suppress(ValueProblem):
            table = self.known_table(obj)
            column = None if table is None else table.column(name)
            if table is not None and column is not None:
                reference = table.references.get(column)
                kind = table.columns[column]
                if reference is not None and reference.key is not None:
                    kind = self._kind_of_key(reference, reference.key, kind)
                converter = self._values.converter(kind, column in table.padded)
                return partial(_mask_text, mask, converter, kind)
        return mask

    def _column(self, obj: Object, name: str) -> RenderedColumn:
        table = self.known_table(obj)
        table_column = None if table is None else table.column(name)
        if table is None and self._catalogue.closed:
            raise ValueProblem(
                Reason.TABLE_NAME,
                f"the database has no table {obj.table!r} any more: exclude the table, or restore it",
            )
        if table is not None and table.complete and table_column is None:
            raise ValueProblem(
                Reason.COLUMN_NAME,
                f"table {obj.table!r} has no column {name!r} any more: exclude the column, or restore it",
            )
        converter = self._masked_converter(obj, name, table, table_column)
        if self._values.limits_length:
            converter = limit_length(converter, "the value")
        return RenderedColumn(
            escape_attribute(name),
            _name_column(converter, name),
            self._filter.publishes_column(obj, name),
            table is not None and table_column is not None and table.is_multiple(table_column),
        )

    def _masked_converter(
        self, obj: Object, name: str, table: Table | None, column: str | None
    ) -> Converter:
        if self.masks is None:
            return self._converter(table, column)
        mask, of_target = (
            find(obj, name) for find in (self.masks.of_column, self.masks.of_reference)
        )
        if mask is None or of_target is not None:
            return self._converter(table, column, of_target)
        # a reference to an object that is not masked would show its key: only the mask remains
        kind = None if table is None or column is None else table.columns[column]
        return masked_converter(self._value_converter(table, column), mask, kind)

    def _converter(
        self, table: Table | None, column: str | None, mask: Mask | None = None
    ) -> Converter:
        reference = None if table is None or column is None else table.references.get(column)
        if table is None or column is None or reference is None or reference.key is None:
            return self._value_converter(table, column)
        kind = self._kind_of_key(reference, reference.key, table.columns[column])
        apply = self._case.apply
        names = (reference.table, reference.key)
        table_name, key = (apply(name, name) for name in names)
        schema = reference.schema and apply(reference.schema, reference.schema)
        target_names = ReferenceTarget(schema, table_name, key, kind)
        return reference_converter(target_names, self._values.options, column in table.padded, mask)

    def _value_converter(self, table: Table | None, column: str | None) -> Converter:
        if table is None or column is None:
            return self._values.converter(None)
        return self._values.converter(table.columns[column], column in table.padded)

    def _kind_of_key(self, reference: Reference, key: str, own_kind: ColumnKind) -> ColumnKind:
        """The kind of the key that a reference refers to; its class may be refused."""
        try:
            target = self._catalogue.table(reference.schema, reference.table)
        except TableRefusedError:
            return own_kind
        return own_kind if target is None else target.columns.get(key, own_kind)

    def known_table(self, obj: Object) -> Table | None:
        """Describes the object's table.  Raises ``ValueProblem`` if the database refuses access to it."""
        try:
            return self._catalogue.table(obj.schema, obj.table)
        except TableRefusedError as error:
            raise ValueProblem(Reason(error.reason), error.message) from None


def _name_column(converter: Converter, name: str) -> Converter:
    """Names the column in the problems of its values."""

    def content(text: str) -> str:
        try:
            return converter.content(text)
        except ValueProblem as problem:
            raise ValueProblem(problem.reason, f"column {name}: {problem.detail}") from None

    return replace(converter, content=content)


def _mask_text(mask: Mask, converter: Converter, kind: ColumnKind | None, text: str) -> str:
    """Masks a value; one that documents cannot have as it is."""
    with suppress(ValueProblem):
        text = canonical_text(text, converter, kind)
    return mask(text)

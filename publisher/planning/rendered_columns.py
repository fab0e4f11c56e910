"""The columns of tables as documents show them: their names in XML and the forms of their values."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from publisher.errors import TableRefusedError
from publisher.model.catalogue import Catalogue, ColumnKind, Reference, Table
from publisher.model.change import Object, Reason
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import Filter
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


class ColumnRenderer:
    """Describes the columns of the tables of one source."""

    def __init__(
        self,
        case: IdentifierCase,
        values: Values,
        filter_: Filter,
        catalogue: Catalogue,
    ) -> None:
        self._case = case
        self._values = values
        self._filter = filter_
        self._catalogue = catalogue

    def column(self, obj: Object, name: str) -> RenderedColumn:
        """A column of the object's table.

        Raises ``ValueProblem`` if XML forbids its name, or if it is gone since the record was read."""
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
        converter = self._converter(table, table_column)
        if self._values.limits_length:
            converter = limit_length(converter, "the value")
        return RenderedColumn(
            escape_attribute(name),
            _name_column(converter, name),
            self._filter.publishes_column(obj, name),
            table is not None and table_column is not None and table.is_multiple(table_column),
        )

    def _converter(self, table: Table | None, column: str | None) -> Converter:
        reference = None if table is None or column is None else table.references.get(column)
        if table is None or column is None or reference is None or reference.key is None:
            return self._value_converter(table, column)
        kind = self._kind_of_key(reference, reference.key, table.columns[column])
        apply = self._case.apply
        names = (reference.table, reference.key)
        table_name, key = (apply(name, name) for name in names)
        schema = reference.schema and apply(reference.schema, reference.schema)
        target_names = ReferenceTarget(schema, table_name, key, kind)
        return reference_converter(target_names, self._values.options, column in table.padded)

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
    """SourceNames the column in the problems of its values."""

    def content(text: str) -> str:
        try:
            return converter.content(text)
        except ValueProblem as problem:
            raise ValueProblem(problem.reason, f"column {name}: {problem.detail}") from None

    return replace(converter, content=content)

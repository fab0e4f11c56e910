"""The masking of the columns, keys and look-ups of one source.

A lane masks keys before it plans, so everything that it writes names masked objects.  Values are masked
where they are rendered, after their conversion: equal values in different notations stay equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from publisher.errors import FatalError, TableRefusedError
from publisher.masking.masker import Masker
from publisher.model.catalogue import Catalogue, ColumnKind
from publisher.model.change import Change, EventType, Object
from publisher.model.change_batches import batch_of_objects, objects_of
from publisher.model.key_changes import object_after
from publisher.model.keys import KeyProblem, decimal_text, format_key, parse
from publisher.planning.filters import Filter
from publisher.planning.query_back import (
    NO_NAMED,
    NO_NAMED_COLUMNS,
    Answer,
    Answers,
    BulkLookup,
    NamedColumns,
)
from publisher.xds.escape import escape_permitted, unescape
from publisher.xds.values import Converter

T = TypeVar("T")
Mask = Callable[[str], str]


class ColumnMasks:
    """Finds the mask of each column of a source, once."""

    def __init__(self, masker: Masker, filter_: Filter, catalogue: Catalogue) -> None:
        self._masker = masker
        self._filter = filter_
        self._catalogue = catalogue
        self._values: dict[tuple[str | None, str, str], Mask | None] = {}
        self._keys: dict[tuple[str | None, str, str], Mask | None] = {}

    def of_column(self, obj: Object, column: str) -> Mask | None:
        """The mask of the values of a column of an object's table; ``None`` if they are published."""
        return _once(self._values, (obj.schema, obj.table, column), lambda: self._find(obj, column))

    def of_value(self, obj: Object, column: str) -> Mask | None:
        """The mask of a value, also of a reference to an object whose key is masked."""
        return self.of_column(obj, column) or self.of_reference(obj, column)

    def of_reference(self, obj: Object, column: str) -> Mask | None:
        """The mask of the key to which a column refers; ``None`` if that is published, or there is none."""
        try:
            table = self._catalogue.table(obj.schema, obj.table)
        except TableRefusedError:
            return None
        name = None if table is None else table.column(column)
        reference = None if table is None or name is None else table.references.get(name)
        if reference is None or reference.key is None:
            return None
        schema = obj.schema if reference.schema is None else reference.schema
        return self.of_key(Object(schema, reference.table, ""), reference.key)

    def of_key(self, obj: Object, column: str) -> Mask | None:
        """The mask of the values of a column of the key.

        Raises ``FatalError`` if another method than ``hash`` is set for it."""
        place = (obj.schema, obj.table, column)
        return _once(self._keys, place, lambda: self._find_of_key(obj, column))

    def key(self, obj: Object) -> str:
        """The masked key of an object."""
        try:
            parts = parse(obj.key)
        except KeyProblem:  # of a rejected record
            return self._masker.hash(obj.key)
        values = {part.column: part.value for part in parts}
        masks = {column: self.of_key(obj, column) for column in values}
        if not any(masks.values()):
            return obj.key
        return format_key((name, _apply(masks[name], value)) for name, value in values.items())

    def change_of_key(self, change: Change) -> Change:
        """Masks a change of the key: both keys of its object."""
        obj = change.object
        old, new = (
            tuple(
                None if value is None else _apply(self.of_key(obj, column), value)
                for column, value in zip(change.columns, values, strict=True)
            )
            if values is not None
            else None
            for values in (change.old, change.new)
        )
        return change._replace(object=obj._replace(key=self.key(obj)), old=old, new=new)

    def _find(self, obj: Object, column: str) -> Mask | None:
        method = self._masker.method(self._names(obj, column), without_schema=obj.schema is None)
        return None if method is None else self._masker.mask(method)

    def _find_of_key(self, obj: Object, column: str) -> Mask | None:
        names = self._names(obj, column)
        without_schema = obj.schema is None
        if self._masker.hashes(names, without_schema=without_schema):
            return self._masker.hash
        method = self._masker.method(names, without_schema=without_schema)
        if method is None:
            return None
        raise FatalError(
            f"column {column} is in the key of {obj.qualified_table}, and {method.value} in [masking] would "
            "give several objects one key: name it in hash"
        )

    def _names(self, obj: Object, column: str) -> Sequence[str]:
        names, _ = self._filter.names_of_column(obj, column)
        of_table = [name for name in names if name.startswith(f"{obj.table}.")]
        return [*names, *(f"{obj.schema}.{name}" for name in of_table if obj.schema)]


def _once(
    known: dict[tuple[str | None, str, str], T],
    place: tuple[str | None, str, str],
    find: Callable[[], T],
) -> T:
    if place not in known:
        known[place] = find()
    return known[place]


def _apply(mask: Mask | None, value: str) -> str:
    return value if mask is None else mask(value)


def masked_converter(converter: Converter, mask: Mask, kind: ColumnKind | None) -> Converter:
    """Masks the contents of a converter, which become strings."""

    def content(text: str) -> str:
        return escape_permitted(mask(canonical_text(text, converter, kind)))

    return Converter("string", content, None)


def canonical_text(text: str, converter: Converter, kind: ColumnKind | None) -> str:
    """Converts a value to the text that is masked; equal values have equal texts.

    Raises ``ValueProblem``."""
    plain = unescape(converter.content(text))
    return (decimal_text(plain) or plain) if kind is ColumnKind.DECIMAL else plain


class RealObjects:
    """The objects under their real keys, by which the database knows them."""

    def __init__(self) -> None:
        self._real: dict[Object, Object] = {}
        self._values: dict[tuple[str | None, str, str, str], str] = {}
        """The values of keys that change, by schema, table, column and masked value."""

    def add(self, masked: Object, real: Object) -> None:
        """Remembers an object that may be looked up."""
        self._real[masked] = real

    def add_change_of_key(self, masked: Change, real: Change) -> None:
        """Remembers the values of both keys: a change of several columns may be several records."""
        assert real.event_type == EventType.KEY_CHANGE
        for hidden, shown in ((masked.object, real.object), map(object_after, (masked, real))):
            for value, part in zip(parse(hidden.key), parse(shown.key), strict=True):
                place = (shown.schema, shown.table, value.column, value.value)
                self._values[place] = part.value

    def real(self, masked: Object) -> Object:
        """The object under its real key."""
        if masked not in self._real:
            schema, table, key = masked
            names = ((part.column, part.value) for part in parse(key))
            values = [(name, self._values[schema, table, name, value]) for name, value in names]
            self._real[masked] = masked._replace(key=format_key(values))
        return self._real[masked]


class UnmaskingLookup:
    """Looks masked objects up by their real keys."""

    reads_at_once = 1

    def __init__(self, lookup: BulkLookup, objects: RealObjects) -> None:
        self._lookup = lookup
        self._objects = objects

    def answers(
        self, objects: Sequence[Object], named: NamedColumns = NO_NAMED_COLUMNS
    ) -> dict[Object, Answer]:
        """Returns an answer for each of the objects."""
        real = {obj: self._objects.real(obj) for obj in objects}
        answers = self._lookup.answers([*real.values()], self._real_names(named))
        return {obj: answers[real[obj]] for obj in objects}

    def read(
        self, objects: pa.RecordBatch, named: Mapping[int, Collection[str]] = NO_NAMED
    ) -> Answers:
        """Reads the current rows of the objects."""
        real = map(self._objects.real, objects_of(objects))
        return self._lookup.read(batch_of_objects([*real]), named)

    def _real_names(self, named: NamedColumns) -> NamedColumns:
        return {self._objects.real(obj): columns for obj, columns in named.items()}

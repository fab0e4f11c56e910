"""Masking of one source: its records and the rows of its look-ups, before anything is planned.

The plan, its documents and its reports know masked keys and values only.  A value has its mask as text,
so ``MaskedCatalogue`` describes masked columns as texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

import pyarrow as pa

from publisher.errors import FatalError, TableRefusedError
from publisher.masking.masker import HIDDEN_DETAIL, Masking
from publisher.model.catalogue import Catalogue, ColumnKind, Reference, Table
from publisher.model.change import QUERY_BACK, Change, EventType, Object
from publisher.model.change_batches import batch_of_objects, objects_of
from publisher.model.key_changes import object_after
from publisher.model.keys import KeyForm, KeyPart, KeyProblem, decimal_text, format_key, parse
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.planning.filters import Filter, FilterOptions
from publisher.planning.query_back import (
    NO_NAMED_COLUMNS,
    Answers,
    CurrentRows,
    CurrentValue,
    Lookup,
    NamedColumns,
    RefusedLookup,
)
from publisher.xds.escape import ValueProblem, unescape
from publisher.xds.values import ValueOptions, Values

Mask = Callable[[str], str]
_Texts = Iterable[str | None] | None
_Masked = tuple[str | None, ...] | None


class SourceMasks:
    """Masks the records of one source; knows the real keys of objects that may be looked up."""

    def __init__(
        self, masking: Masking, filters: FilterOptions, catalogue: Catalogue, values: ValueOptions
    ) -> None:
        self._masker = masking.masker
        self._filters = filters
        self._filter = Filter(filters, catalogue=catalogue)
        self._catalogue = catalogue
        self._converters = Values(values)
        self._trims = values.trim_padding
        self._objects: dict[Object, Object] = {}
        self._key_values: dict[tuple[str | None, str, str, str], str] = {}
        """The values of keys that change, by schema, table, column and masked value."""
        self.of_value = cache(self._find)
        self._of_key = cache(self._find_of_key)

    @property
    def filters(self) -> FilterOptions:
        """The filters of masked records: the user whose changes are loopback is masked, too."""
        user = self._filters.driver_user
        return (
            self._filters if user is None else replace(self._filters, driver_user=self._hash(user))
        )

    def mask(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Masks a batch of ``RECORD_SCHEMA``: keys, values and users; hides the texts of rejects."""
        names = ("schema", "table", "key", "event_type", "columns", "old", "new")
        rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        masked = [self._mask_row(*row) for row in rows]
        users, details = (batch.column(name).to_pylist() for name in ("perpetrator", "detail"))
        columns = {
            "key": [key for key, _, _ in masked],
            "old": [old for _, old, _ in masked],
            "new": [new for _, _, new in masked],
            "perpetrator": [user and self._hash(user) for user in users],
            # a status of a row is one letter
            "detail": [HIDDEN_DETAIL if len(text or "") > 1 else text for text in details],
            "raw": [None] * batch.num_rows,
        }
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else batch[field.name]
            for field in RECORD_SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)

    def change_of_key(self, change: Change) -> Change:
        """Masks a change of a key that a survey has found, and remembers the values of both keys.

        A change of several columns may be several records."""
        key, old, new = self._mask_row(
            *change.object, change.event_type, change.columns, change.old, change.new
        )
        masked = change._replace(object=change.object._replace(key=key or ""), old=old, new=new)
        for hidden, real in ((masked.object, change.object), map(object_after, (masked, change))):
            for part, real_part in zip(parse(hidden.key), parse(real.key), strict=True):
                place = (real.schema, real.table, part.column, part.value)
                self._key_values[place] = real_part.value
        return masked

    def real_object(self, masked: Object) -> Object:
        """Returns an object under its real key, by which the database knows it."""
        if masked not in self._objects:
            schema, table, key = masked
            parts = ((part.column, part.value) for part in parse(key))
            values = [(name, self._key_values[schema, table, name, value]) for name, value in parts]
            self._objects[masked] = masked._replace(key=format_key(values))
        return self._objects[masked]

    def of_reference(self, schema: str | None, reference: Reference | None) -> Mask | None:
        """The mask of the key to which a column refers; ``None`` if it is published."""
        if reference is None or reference.key is None:
            return None
        return self._of_key(reference.schema or schema, reference.table, reference.key)

    def _hash(self, text: str) -> str:
        return self._masker.hash(text)

    def _mask_row(
        self,
        schema: str | None,
        table: str | None,
        key: str | None,
        event_type: int | None,
        columns: Sequence[str] | None,
        old: _Texts,
        new: _Texts,
    ) -> tuple[str | None, _Masked, _Masked]:
        of_column = self._of_key if event_type == EventType.KEY_CHANGE else self.of_value
        masks = [of_column(schema, table or "", name) for name in columns or ()]
        old, new = _mask_image(masks, old), _mask_image(masks, new)
        if key is None:
            return key, old, new
        if table is None:
            return self._hash(key), old, new
        masked = self._key(schema, table, key)
        if event_type in QUERY_BACK:
            self._objects[Object(schema, table, masked)] = Object(schema, table, key)
        return masked, old, new

    def _key(self, schema: str | None, table: str, key: str) -> str:
        try:
            parts = parse(key)
        except KeyProblem:  # of a rejected record
            return self._hash(key)
        masks = [self._of_key(schema, table, part.column) for part in parts]
        if not any(masks):
            return key
        return format_key(
            (part.column, mask(part.value) if mask else part.value)
            for part, mask in zip(parts, masks, strict=True)
        )

    def _find(self, schema: str | None, table: str, column: str) -> Mask | None:
        """Finds the mask of the values of a column; equal values in different notations get one mask."""
        described = self._table(schema, table)
        name = None if described is None else described.column(column)
        reference = None if described is None or name is None else described.references.get(name)
        of_target = self.of_reference(schema, reference)
        method = self._masker.method(
            self._names(schema, table, column), without_schema=schema is None
        )
        mask = of_target or (None if method is None else self._masker.mask(method))
        if mask is None or described is None or name is None:
            return mask
        kind, is_padded = described.columns[name], name in described.padded
        if reference is not None and reference.key is not None:
            target = self._table(reference.schema, reference.table)
            kind = kind if target is None else target.columns.get(reference.key, kind)
            if of_target is not None:
                trims = is_padded and self._trims
                return _mask_canonical(mask, lambda text: _key_value(text, kind, trims=trims))
        converter = self._converters.converter(kind, is_padded)

        def canonical(text: str) -> str:
            plain = unescape(converter.content(text))
            return (decimal_text(plain) or plain) if kind is ColumnKind.DECIMAL else plain

        return _mask_canonical(mask, canonical)

    def _find_of_key(self, schema: str | None, table: str, column: str) -> Mask | None:
        """Finds the mask of a column of the key.  Raises ``FatalError`` for another method than ``hash``."""
        names, without_schema = self._names(schema, table, column), schema is None
        if self._masker.hashes(names, without_schema=without_schema):
            return self._hash
        method = self._masker.method(names, without_schema=without_schema)
        if method is None:
            return None
        qualified = Object(schema, table, "").qualified_table
        raise FatalError(
            f"column {column} is in the key of {qualified}, and {method.value} in [masking] would "
            "give several objects one key: name it in hash"
        )

    def _names(self, schema: str | None, table: str, column: str) -> Sequence[str]:
        names, _ = self._filter.names_of_column(Object(schema, table, ""), column)
        of_table = [name for name in names if name.startswith(f"{table}.")]
        return [*names, *(f"{schema}.{name}" for name in of_table if schema)]

    def _table(self, schema: str | None, table: str) -> Table | None:
        try:
            return self._catalogue.table(schema, table)
        except TableRefusedError:
            return None


class MaskedCatalogue:
    """Describes masked columns as texts; those that would show keys of other objects do not refer to them."""

    def __init__(self, catalogue: Catalogue, masks: SourceMasks) -> None:
        self._catalogue = catalogue
        self._masks = masks
        self.table = cache(self._describe)

    @property
    def closed(self) -> bool:
        """As ``Catalogue.closed``."""
        return self._catalogue.closed

    def _describe(self, schema: str | None, name: str) -> Table | None:
        table = self._catalogue.table(schema, name)
        if table is None:
            return None
        masked = {column for column in table.columns if self._masks.of_value(schema, name, column)}
        return replace(
            table,
            columns={
                column: ColumnKind.STRING if column in masked else kind
                for column, kind in table.columns.items()
            },
            references={
                column: reference
                for column, reference in table.references.items()
                if column not in masked or self._masks.of_reference(schema, reference)
            },
        )


class MaskedLookup:
    """Looks masked objects up by their real keys, and masks their rows."""

    def __init__(self, lookup: Lookup, masks: SourceMasks) -> None:
        self._lookup = lookup
        self._masks = masks

    def read(self, objects: pa.RecordBatch, named: NamedColumns = NO_NAMED_COLUMNS) -> Answers:
        """Reads the current rows of the objects."""
        masked = objects_of(objects)
        real = batch_of_objects([*map(self._masks.real_object, masked)])
        answers = self._lookup.read(real, named)
        rows = [self._mask_rows(masked[table.places[0]], table) for table in answers.rows]
        others = {place: other and _hide(other) for place, other in answers.others.items()}
        return Answers(rows, others)

    def _mask_rows(self, obj: Object, rows: CurrentRows) -> CurrentRows:
        masks = [self._masks.of_value(obj.schema, obj.table, name) for name in rows.columns]
        values = [
            pa.array([_apply(mask, value) for value in array.to_pylist()], array.type)
            if mask
            else array
            for mask, array in zip(masks, rows.values, strict=True)
        ]
        return rows._replace(values=values)


def masks_of(
    masking: Masking | None, filters: FilterOptions, catalogue: Catalogue, values: ValueOptions
) -> SourceMasks | None:
    """The masks of a source; ``None`` without masking."""
    return None if masking is None else SourceMasks(masking, filters, catalogue, values)


def mask_records(
    batches: Iterable[pa.RecordBatch], masks: SourceMasks | None
) -> Iterator[pa.RecordBatch]:
    """Masks batches of ``RECORD_SCHEMA``; yields them as they are without masks."""
    return iter(batches) if masks is None else map(masks.mask, batches)


def _mask_image(masks: Iterable[Mask | None], texts: _Texts) -> _Masked:
    """Masks the values of a record, which may have none."""
    if texts is None:
        return None
    return tuple(
        text if mask is None or text is None else mask(text)
        for mask, text in zip(masks, texts, strict=True)
    )


def _apply(mask: Mask | None, value: CurrentValue) -> CurrentValue:
    if mask is None or value is None:
        return value
    return mask(value) if isinstance(value, str) else tuple(map(mask, value))


def _mask_canonical(mask: Mask, canonical: Callable[[str], str]) -> Mask:
    def masked(text: str) -> str:
        with suppress(ValueProblem, KeyProblem):  # no document could have it; its mask is published
            text = canonical(text)
        return mask(text)

    return masked


def _key_value(text: str, kind: ColumnKind, *, trims: bool) -> str:
    """The value of a key to which a column refers, as the association of the object has it."""
    part = KeyPart("key", text.rstrip(" ") if trims else text, quoted=True)
    (canonical,) = parse(KeyForm({"key": str(kind)}).canonical([part]))
    return canonical.value


def _hide(refused: RefusedLookup) -> RefusedLookup:
    return refused._replace(detail=HIDDEN_DETAIL)

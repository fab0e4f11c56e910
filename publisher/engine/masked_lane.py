"""The masking of one source in a lane: of its records on entry, and of rejects and look-ups in its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from publisher.masking.masker import HIDDEN_DETAIL, Masker
from publisher.model.change import QUERY_BACK, Change, EventType, Object
from publisher.model.change_batches import changes_of
from publisher.model.outcomes import Outcomes
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.planning.filters import FilterOptions
from publisher.planning.lane import PlanResult
from publisher.planning.masked_columns import ColumnMasks, Mask, RealObjects, UnmaskingLookup
from publisher.planning.query_back import (
    Answer,
    BulkLookup,
    CurrentValue,
    ObjectLookup,
    RefusedLookup,
    RowLookups,
)


class MaskedLane:
    """Masks what one source of a lane writes."""

    def __init__(self, masker: Masker, masks: ColumnMasks) -> None:
        self.masks = masks
        self._masker = masker
        self._objects = RealObjects()

    def arrivals(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Masks the keys of arriving records, and the users who made them."""
        names = ("schema", "table", "key", "event_type", "perpetrator")
        schemas, tables, keys, types, users = (batch.column(name).to_pylist() for name in names)
        known: dict[Object, str] = {}
        masked: list[str | None] = []
        for schema, table, key, event_type in zip(schemas, tables, keys, types, strict=True):
            if key is None:
                masked.append(key)
                continue
            obj = Object(schema, table or "", key)
            if obj not in known:
                known[obj] = self._masker.hash(key) if table is None else self.masks.key(obj)
            masked.append(known[obj])
            if event_type in QUERY_BACK:
                self._objects.add(obj._replace(key=known[obj]), obj)
        columns: dict[str, object] = {
            "key": masked,
            "perpetrator": [user and self._masker.hash(user) for user in users],
        }
        if EventType.KEY_CHANGE in types:
            columns |= self._changed_keys(batch)
        return replace_columns(batch, columns)

    def _changed_keys(self, batch: pa.RecordBatch) -> dict[str, object]:
        """Masks the values of changes of keys; they are parts of keys."""
        old, new = batch.column("old").to_pylist(), batch.column("new").to_pylist()
        for row, kind in enumerate(batch.column("event_type").to_pylist()):
            if kind == EventType.KEY_CHANGE:
                (change,) = changes_of(batch.slice(row, 1), [0])
                masked = self.masks.change_of_key(change)
                old[row], new[row] = masked.old, masked.new
        return {"old": old, "new": new}

    def change_of_key(self, change: Change) -> Change:
        """Masks a change of a key that a survey has found."""
        masked = self.masks.change_of_key(change)
        self._objects.add_change_of_key(masked, change)
        return masked

    def filters(self, options: FilterOptions) -> FilterOptions:
        """Masks the user whose changes are loopback, as ``arrivals`` masks users."""
        user = options.driver_user
        return options if user is None else replace(options, driver_user=self._masker.hash(user))

    def lookup(self, lookup: BulkLookup) -> BulkLookup:
        """Lets a look-up find masked objects."""
        return UnmaskingLookup(lookup, self._objects)

    def plans(self, results: Iterable[PlanResult]) -> Iterator[PlanResult]:
        """Hides the texts of rejects, and masks looked-up rows."""
        for result in results:
            yield PlanResult(
                result.documents,
                [self._hide(outcomes) for outcomes in result.outcomes],
                [self._lookup(lookup) for lookup in result.lookups],
            )

    def _lookup(self, lookup: ObjectLookup | RowLookups) -> ObjectLookup | RowLookups:
        if isinstance(lookup, ObjectLookup):
            return lookup._replace(answer=self._answer(lookup.object, lookup.answer))
        schema, table = (lookup.objects.column(name)[0].as_py() for name in ("schema", "table"))
        obj = Object(schema, table, "")
        columns = zip(lookup.columns, lookup.values, strict=True)
        values = [self._column(obj, name, array) for name, array in columns]
        return lookup._replace(values=values)

    def _answer(self, obj: Object, answer: Answer) -> Answer:
        if isinstance(answer, RefusedLookup):
            return answer._replace(detail=HIDDEN_DETAIL)
        if answer is None:
            return None
        values = zip(answer.columns, answer.values, strict=True)
        masks = ((self.masks.of_value(obj, name), value) for name, value in values)
        return answer._replace(values=tuple(_mask_value(mask, value) for mask, value in masks))

    def _column(self, obj: Object, name: str, values: pa.Array) -> pa.Array:
        mask = self.masks.of_value(obj, name)
        if mask is None:
            return values
        masked = [_mask_value(mask, value) for value in values.to_pylist()]
        return pa.array(masked, values.type)

    def _hide(self, outcomes: Outcomes) -> Outcomes:
        texts = {row: (shown_detail(detail), None) for row, (detail, _) in outcomes.texts.items()}
        return outcomes._replace(texts=texts)


def shown_detail(detail: str | None) -> str | None:
    """Hides a text about a record, which may quote values; the status of a row is one letter."""
    return HIDDEN_DETAIL if detail is not None and len(detail) > 1 else detail


def replace_columns(batch: pa.RecordBatch, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Replaces columns of a batch of ``RECORD_SCHEMA`` by lists of values."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else batch[field.name]
        for field in RECORD_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


def _mask_value(mask: Mask | None, value: CurrentValue) -> CurrentValue:
    if mask is None or value is None:
        return value
    return mask(value) if isinstance(value, str) else tuple(map(mask, value))

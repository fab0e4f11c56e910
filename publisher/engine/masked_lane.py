"""The masking of one source in a lane: of its records on entry, and of rejects and look-ups in its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from publisher.acknowledge.reasons import written_id
from publisher.engine.sealed_records import replace_columns
from publisher.masking.masker import Masker
from publisher.masking.sealed_rejects import HIDDEN_DETAIL, SEALED_DETAIL, seal_reject
from publisher.model.change import QUERY_BACK, Change, Decision, EventType, Object, Outcome
from publisher.model.change_batches import changes_of
from publisher.planning.filters import FilterOptions
from publisher.planning.masked_columns import ColumnMasks, Mask, RealObjects, UnmaskingLookup
from publisher.planning.planner import PlanResult
from publisher.planning.query_back import (
    Answer,
    BulkLookup,
    CurrentValue,
    ObjectLookup,
    RefusedLookup,
    RowLookups,
)
from publisher.sources.files.digest import digest_of_text


class MaskedLane:
    """Masks what one source of a lane writes."""

    def __init__(
        self, masker: Masker, masks: ColumnMasks, *, is_live: bool, knows_masked_keys: bool
    ) -> None:
        """``is_live`` is true for a table, whose rows get statuses; for ``knows_masked_keys`` see
        ``SourceBase``."""
        self._is_live = is_live
        self._knows_masked_keys = knows_masked_keys
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
            if key is None or (self._knows_masked_keys and event_type == EventType.DELETE_ROW):
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
            "perpetrator": [user and self._masker.perpetrator(user) for user in users],
            "fingerprint": self._masker.fingerprints(batch.column("fingerprint").to_pylist()),
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
        return (
            options
            if user is None
            else replace(options, driver_user=self._masker.perpetrator(user))
        )

    def lookup(self, lookup: BulkLookup) -> BulkLookup:
        """Lets a look-up find masked objects."""
        return UnmaskingLookup(lookup, self._objects)

    def plans(self, results: Iterable[PlanResult]) -> Iterator[PlanResult]:
        """Seals rejects and masks looked-up rows."""
        for result in results:
            yield PlanResult(
                result.documents,
                [self._decision(decision) for decision in result.decisions],
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
            return answer._replace(detail=SEALED_DETAIL)
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

    def _decision(self, decision: Decision) -> Decision:
        detail, raw = self.seal_fault(decision.outcome, decision.detail, decision.raw)
        return decision._replace(detail=detail, raw=raw)

    def seal_fault(
        self, outcome: int | None, detail: str | None, raw: str | None
    ) -> tuple[str | None, str | None]:
        """Returns the detail and the raw record of a reject, or of another record, as they are written."""
        shown = detail
        if outcome == Outcome.REJECTED:
            shown = SEALED_DETAIL
        elif detail is not None and len(detail) > 1:  # the status of a row is one letter
            shown = HIDDEN_DETAIL
        if raw is not None or outcome == Outcome.REJECTED:
            raw = seal_reject(detail, raw, self._masker, self._facts(raw))
        return shown, raw

    def _facts(self, raw: str | None) -> dict[str, object]:
        """Facts by which the acknowledgement of a live log recognises a rejected row."""
        if not self._is_live or raw is None:
            return {}
        record_id = written_id(raw)
        if record_id is not None:
            return {"record_id": record_id}
        return {"digest": f"{digest_of_text(raw):016x}"}


def _mask_value(mask: Mask | None, value: CurrentValue) -> CurrentValue:
    if mask is None or value is None:
        return value
    return mask(value) if isinstance(value, str) else tuple(map(mask, value))

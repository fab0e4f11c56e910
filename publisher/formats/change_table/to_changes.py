"""Turns operations into changes: the content of each record determines event type and columns.

================================  ======================================================
INSERT                            1, the columns of its mask (all without mask)
UPDATE with before image          2, the columns of its mask, else those that differ
UPDATE without before image       3, the columns of its mask; without mask by setting
key UPDATE with before image      4 of the old key, then 1 of the new row (5 by setting), or by setting
                                  a change of the key, then 2 of the other columns
key UPDATE without before image   rejected, or 6, by setting
DELETE                            4
================================  ======================================================

A column outside the mask is absent; NULL inside the mask is NULL.  The mask of an UPDATE also applies to its
before image.  The key is read from the row, whether its bits are set or not.  A mask of 128 bytes does not
cover the columns beyond bit 1023 (manual, change_mask): the images decide about these columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from publisher.formats.change_table import images
from publisher.formats.change_table.change_seq import Flags, Integers, Ranking
from publisher.formats.change_table.data_columns import DataColumns
from publisher.formats.change_table.keys import KeyReader, RowKeys
from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.change_table.masks import MaskReading
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.pairs import ALONE, PairedRows
from publisher.formats.change_table.rejects import RejectBuilder
from publisher.formats.change_table.rows import ChangeOperation, ChangeRows, header_times
from publisher.formats.columns.key_changes import key_change_columns
from publisher.formats.columns.object_names import Names, RecordFault
from publisher.formats.columns.record_batches import Place, batch, child_columns
from publisher.formats.columns.row_images import Matrix, marked_names, marked_values
from publisher.model.change import EventType, Reason

NO_OLD_KEY = RecordFault(
    Reason.KEY_CHANGE,
    "the key was changed, and there is no before image with the old key; store before images, or set"
    ' key_change = "query-back"',
)
KEY_DIFFERS = RecordFault(
    Reason.CHANGE_MASK,
    "the key differs from the before image, but its bit in change_mask is not set; check mask_order,"
    " header_columns and key",
)
UNCOVERED = RecordFault(
    Reason.UNMASKED_UPDATE,
    "change_mask ends at bit 1023, but later columns may have changed, too; store before images, or set"
    ' images = "full" or "sparse"',
)
UNMASKED = RecordFault(
    Reason.UNMASKED_UPDATE,
    "an UPDATE without change_mask, whose NULLs may be values or not supplied; keep change_mask in the"
    ' task, or set images = "full" or "sparse"',
)


@dataclass(slots=True)
class ChangeDraft:
    """Operations that are being turned into changes."""

    pairs: PairedRows
    masked: Matrix
    """Columns of each mask."""
    has_mask: Flags
    differs: Matrix
    """Columns that differ from the before image; none without before image."""
    chosen: Matrix
    """Columns of each change."""
    kinds: Integers
    """Event type of each change."""
    is_key_update: Flags
    """UPDATEs of the key whose old key is known."""
    initially_chosen: Matrix
    """Columns of each change before new rows of key changes were completed."""
    unknown: Matrix
    """Columns of the new row of a key change that no image supplies."""


class ChangeTableChangeBuilder:
    """Builds records from the operations on one table."""

    reads_unmasked = False
    """True if an UPDATE without mask and before image becomes type 6."""

    def __init__(
        self,
        place: Place,
        layout: ChangeTableLayout,
        reading: MaskReading | None,
        key: tuple[str, ...],
        columns: DataColumns,
        names: Names,
        options: ChangeTableOptions,
        ranking: Ranking,
    ) -> None:
        self._place = place
        self._layout = layout
        self._reading = reading
        self._key = key
        self._key_places = [layout.data.index(name) for name in key]
        self._is_key = np.isin(np.arange(len(layout.data)), self._key_places)
        self.columns = columns
        self._keys = KeyReader(key, columns, names, place.lanes)
        self._options = options
        self._ranking = ranking
        self.rejects = RejectBuilder(place, columns.target, ranking)
        self._spelled = [columns.name(name) for name in layout.data]
        width = len(layout.data)
        self._beyond = np.arange(width) >= (width if reading is None else reading.maskable(width))
        """Columns without a bit in a mask of 128 bytes."""

    def records(self, pairs: PairedRows) -> Iterator[pa.RecordBatch]:
        """Builds changes, then rejects."""
        draft = self._draft(pairs)
        rows = pairs.after
        moments = header_times(rows, self._layout, self._options.time_zone)
        new_keys = self._keys.read(rows, rows.batch, pairs.before)
        live = np.ones(len(rows), bool)
        live[list(rows.faults)] = False
        old_keys = None
        if (draft.is_key_update & live).any():
            old_keys = self._keys.read(rows, pairs.before, None, which=draft.is_key_update & live)
            live[list(rows.faults)] = False
            self._undo_respellings(draft, new_keys, old_keys)
        self.complete(draft)
        live[list(rows.faults)] = False
        if live.any():
            yield from self._changes(draft, np.flatnonzero(live), new_keys, old_keys, moments)
        if rows.faults:
            yield from self.rejects.reject_pairs(pairs)

    def _draft(self, pairs: PairedRows) -> ChangeDraft:
        rows, size = pairs.after, (len(pairs.after), len(self._layout.data))
        masked, has_mask = self._read_masks(rows)
        differs = np.zeros(size, bool)
        if pairs.has_before.any():
            differs = images.differences(rows.batch, pairs.before, self._layout.data)
            differs[~pairs.has_before] = False
        draft = ChangeDraft(
            pairs, masked, has_mask, differs, masked.copy(), rows.operations.copy(),
            np.zeros(size[0], bool), masked, np.zeros(size, bool),
        )  # fmt: skip
        rows.reject(rows.operations == ChangeOperation.BEFORE_IMAGE, ALONE)
        draft.kinds[rows.operations == ChangeOperation.DELETE] = 4
        draft.chosen[rows.operations == ChangeOperation.DELETE] = False
        inserts = rows.operations == ChangeOperation.INSERT
        draft.chosen[inserts & ~has_mask] = True
        self._draft_updates(draft, rows.operations == ChangeOperation.UPDATE)
        for place, name in enumerate(self._layout.data):
            fault = self.columns.faults.get(name)
            if fault is not None:
                rows.reject(draft.chosen[:, place], fault)
        return draft

    def _draft_updates(self, draft: ChangeDraft, updates: Flags) -> None:
        rows, has_before = draft.pairs.after, draft.pairs.has_before
        draft.kinds[updates] = np.where(has_before[updates], 2, 3)
        if self._reading is None:
            self._choose_without_masks(draft, updates)
        supplied = images.mark_values(rows.batch, self._key)
        differs = draft.differs[:, self._key_places] & supplied
        bits = draft.masked[:, self._key_places]
        if self._reading is not None:
            rows.reject(updates & has_before & (differs & ~bits).any(axis=1), KEY_DIFFERS)
            without_old_key = updates & ~has_before & bits.any(axis=1)
            if self._options.key_change != "query-back":
                rows.reject(without_old_key, NO_OLD_KEY)
            if self._beyond.any() and draft.pairs.before_is_record:
                self._choose_beyond_masks(draft, updates & ~without_old_key)
            self._reject_unmarked_changes(draft, updates & has_before)
            draft.kinds[without_old_key] = 6
            draft.chosen[without_old_key] = False
        draft.is_key_update = updates & has_before & differs.any(axis=1)
        if draft.is_key_update.any() and not self._options.joins_keys:
            self._complete_rows(draft)

    def _choose_without_masks(self, draft: ChangeDraft, updates: Flags) -> None:
        """Chooses columns of UPDATEs of a table without masks."""
        everything = np.ones(len(self._layout.data), bool)
        draft.chosen[updates] = False
        self._choose_by_images(draft, updates, everything, UNMASKED)

    def _choose_beyond_masks(self, draft: ChangeDraft, updates: Flags) -> None:
        """Chooses among the columns beyond the last bit of a mask, unless the mask is longer."""
        is_short = ~draft.masked[:, self._beyond].any(axis=1)
        inserts = (
            is_short & draft.has_mask & (draft.pairs.after.operations == ChangeOperation.INSERT)
        )
        supplied = images.mark_values(draft.pairs.after.batch, self._layout.data)
        draft.chosen |= inserts[:, np.newaxis] & supplied & self._beyond
        self._choose_by_images(draft, updates & is_short, self._beyond, UNCOVERED)

    def _choose_by_images(
        self, draft: ChangeDraft, updates: Flags, places: Flags, fault: RecordFault
    ) -> None:
        """Chooses among the columns ``places``, which no mask covers."""
        rows, images_setting = draft.pairs.after, self._options.images
        supplied = images.mark_values(rows.batch, self._layout.data) & places
        differs = draft.differs & places
        with_before = updates & draft.pairs.has_before
        chosen = differs & supplied if images_setting == "sparse" else differs
        draft.chosen[with_before] |= chosen[with_before]
        if images_setting is None:
            rows.reject(with_before & (differs & ~supplied).any(axis=1), fault)
        alone = updates & ~draft.pairs.has_before
        if self.reads_unmasked:
            draft.kinds[alone] = 6
            draft.chosen[alone] = False
        elif images_setting is None:
            rows.reject(alone, fault)
        else:
            draft.chosen[alone] |= supplied[alone] if images_setting == "sparse" else places

    def _reject_unmarked_changes(self, draft: ChangeDraft, updates: Flags) -> None:
        """Rejects UPDATEs that differ from their before image in a column outside their mask.

        NULL in an UPDATE outside its mask means not supplied, unless ``images`` is full.
        """
        rows, data = draft.pairs.after, self._layout.data
        wrong: Matrix = draft.differs & ~draft.chosen & updates[:, np.newaxis]
        wrong[:, self._key_places] = False
        if wrong.any():
            wrong &= self._values_if_null(rows) | images.mark_values(rows.batch, data)
            if self._options.images == "sparse":
                wrong &= images.mark_values(draft.pairs.before, data)
        hits = np.asarray(wrong.any(axis=1))
        rows.reject(hits, lambda row: images.unmarked_fault(data, wrong[row]))

    def _complete_rows(self, draft: ChangeDraft) -> None:
        """Completes the new row of a changed key with values of its before image."""
        is_key_update, rows, before = draft.is_key_update, draft.pairs.after, draft.pairs.before
        data = self._layout.data
        known = draft.masked | self._values_if_null(rows)
        draft.kinds[is_key_update] = 1
        draft.initially_chosen = draft.chosen.copy()
        draft.chosen[is_key_update] = True
        gaps = is_key_update[:, np.newaxis] & ~known
        rows.batch = images.fill_gaps(rows.batch, before, data, gaps)
        draft.unknown = gaps & ~images.mark_values(rows.batch, data)

    def _values_if_null(self, rows: ChangeRows) -> Matrix:
        """Marks the columns whose NULL is a value even outside a mask.

        These are the columns of a columnMask, which names the columns of a message; else all columns if
        ``images`` is full.
        """
        size = (len(rows), len(self._layout.data))
        full = np.full(size, self._options.images == "full")
        name = self._layout.headers.get("column_mask")
        if name is None or self._reading is None:
            return full
        listed = self._read_column(rows, name)
        return np.where(listed.any(axis=1, keepdims=True), listed, full)

    def complete(self, draft: ChangeDraft) -> None:
        """Leaves out the columns of a new row that no image supplies: they are not NULL."""
        is_key_update = draft.is_key_update
        if not is_key_update.any():
            return
        if self._options.joins_keys:
            draft.chosen &= ~(is_key_update[:, np.newaxis] & self._is_key)
            return
        draft.chosen[is_key_update] = ~draft.unknown[is_key_update]

    def _undo_respellings(self, draft: ChangeDraft, new_keys: RowKeys, old_keys: RowKeys) -> None:
        """Makes key UPDATEs that only spell the key differently (``01`` for ``1``) plain UPDATEs again."""
        for row in np.flatnonzero(draft.is_key_update).tolist():
            if new_keys.text(row) == old_keys.text(row):
                draft.is_key_update[row] = False
                if not self._options.joins_keys:
                    draft.kinds[row] = 2
                    draft.chosen[row] = draft.initially_chosen[row]

    def _read_masks(self, rows: ChangeRows) -> tuple[Matrix, Flags]:
        """Reads the columns of each mask; marks the rows whose mask is not empty."""
        if self._reading is None:
            width = len(self._layout.data)
            return np.zeros((len(rows), width), bool), np.zeros(len(rows), bool)
        masked = self._read_column(rows, self._layout.headers["change_mask"])
        return masked, np.asarray(masked.any(axis=1))

    def _read_column(self, rows: ChangeRows, name: str) -> Matrix:
        """Reads the masks of a header column; rejects rows whose mask cannot be read."""
        assert self._reading is not None
        column, width = rows.batch.column(name), len(self._layout.data)
        columns, problems = images.read_masks(column, self._reading, width)
        if problems:
            is_before = rows.operations == ChangeOperation.BEFORE_IMAGE
            for row in (
                problems.keys() - set(np.flatnonzero(is_before).tolist()) - rows.faults.keys()
            ):
                rows.faults[row] = problems[row]
        return columns

    def _changes(
        self,
        draft: ChangeDraft,
        indices: Integers,
        new_keys: RowKeys,
        old_keys: RowKeys | None,
        moments: Integers | None,
    ) -> Iterator[pa.RecordBatch]:
        rows, is_key_update = draft.pairs.after, draft.is_key_update
        key_updates = indices[is_key_update[indices]]
        is_key_only = is_key_update & ~draft.chosen.any(axis=1) & self._options.joins_keys
        indices = indices[~is_key_only[indices]]
        kinds, chosen = draft.kinds[indices], draft.chosen[indices]
        old, new = self.before_and_after(draft)
        if len(indices):
            yield self._batch(
                rows,
                indices,
                new_keys,
                moments,
                ordinal=is_key_update[indices].astype(np.int32),
                records=np.where(is_key_update, 1, draft.pairs.records)[indices].astype(np.int32),
                event_type=kinds.astype(np.int32),
                columns=marked_names(self._spelled, chosen),
                old=marked_values(old, chosen, indices, kinds == 2),
                new=marked_values(new, chosen, indices, kinds <= 3),
            )
        if len(key_updates) and old_keys is not None:
            records = int(draft.pairs.before_is_record) + is_key_only[key_updates]
            yield self._batch(
                rows,
                key_updates,
                old_keys,
                moments,
                ordinal=0,
                records=records.astype(np.int32),
                **self.end(draft, key_updates, old_keys, new_keys),
            )

    def before_and_after(self, draft: ChangeDraft) -> tuple[list[pa.Array], list[pa.Array]]:
        """Returns the data columns before and after each change."""
        return self.data_of(draft.pairs.before), self.data_of(draft.pairs.after.batch)

    def end(
        self, _draft: ChangeDraft, which: Integers, old_keys: RowKeys, new_keys: RowKeys
    ) -> dict[str, object]:
        """Returns the columns of the changes that end the old keys of some objects."""
        if self._options.joins_keys:
            old, new = old_keys.of(which)[0], new_keys.of(which)[0]
            return key_change_columns(old.to_pylist(), new.to_pylist())
        empty = pa.array([[]] * len(which), pa.list_(pa.string()))
        return {"event_type": int(EventType.DELETE_ROW), "columns": empty}

    def _batch(
        self,
        rows: ChangeRows,
        which: Integers,
        keys: RowKeys,
        moments: Integers | None,
        **columns: Any,
    ) -> pa.RecordBatch:
        """Builds changes of some rows."""
        texts, lanes = keys.of(which)
        event_times = None
        if moments is not None:
            event_times = pa.array(moments[which], mask=moments[which] < 0)
        transaction = self._layout.headers.get("transaction_id")
        target = self.columns.target
        columns |= child_columns(target.child, columns["columns"], self._layout.table)
        return batch(
            len(which),
            source=self._place.source,
            lane=lanes,
            part="",
            rank=self._ranking.ranks(rows.high[which], rows.low[which]),
            high=rows.high[which],
            low=rows.low[which],
            split=rows.splits[which].astype(np.int32),
            row=rows.numbers[which],
            schema=target.schema,
            table=target.table,
            is_view=target.is_view or None,
            key=texts,
            event_time=event_times,
            transaction=(
                rows.batch.column(transaction).take(pa.array(which)) if transaction else None
            ),
            **columns,
        )

    def data_of(self, image: pa.RecordBatch) -> list[pa.Array]:
        """Returns the data columns of an image."""
        return [image.column(name) for name in self._layout.data]

"""Turns operations on the rows of a child table into changes of their parents' objects.

==========================================  ==============================================================
INSERT                                      2, the values that are added
UPDATE with before image                    2, the values that are removed and added
UPDATE of the link with before image        2 of the former parent's object, then 2 of the new parent's
UPDATE without before image, same parent    rejected, or 8 with ``child_row_events = "read"``
DELETE                                      2, the values that are removed
==========================================  ==============================================================

A value that is removed must be known: NULL in an image without mask is no value unless ``images`` is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.change_table import images
from publisher.formats.change_table.change_seq import Flags, Integers, Ranking
from publisher.formats.change_table.data_columns import DataColumns
from publisher.formats.change_table.keys import RowKeys, key_of
from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.change_table.masks import MaskReading
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.rows import ChangeOperation
from publisher.formats.change_table.to_changes import ChangeDraft, ChangeTableChangeBuilder
from publisher.formats.columns.object_names import Names, RecordFault
from publisher.formats.columns.record_batches import Place
from publisher.formats.columns.row_images import Matrix, marked_names, marked_values
from publisher.formats.contract import Context
from publisher.model.change import EventType, Reason

FORMER_PARENT_UNKNOWN = RecordFault(
    Reason.CHILD_ROW,
    "an UPDATE of a child row that may have moved to another parent, and there is no before image with the"
    " former one; store before images, or keep change_mask in the task",
)
LINK_REMOVED = RecordFault(
    Reason.TABLE_KEY,
    "the UPDATE sets the link of a child row to its parent to NULL; make the column NOT NULL, or remove the"
    " value in the receiving system",
)


class ChildRowChangeBuilder(ChangeTableChangeBuilder):
    """Builds records from the operations on a child table."""

    reads_unmasked = True  # UPDATEs that do not show what changed come to ``complete`` as type 6
    reads = False
    """True to read the values of a parent if a record lacks the value that it removes."""

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
        open_options = replace(options, key_change="query-back")
        super().__init__(place, layout, reading, key, columns, names, open_options, ranking)
        self._has_masks = reading is not None
        self._is_link = np.array([name in key for name in layout.data])
        self._is_value = np.array([columns.holds_values(name) for name in layout.data])
        self._unknown_value = RecordFault(
            Reason.CHILD_ROW,
            f"the value that a row of the child table {columns.target.child} had is not in the record; store"
            ' before images with all columns, or set images = "full" if NULL is a value, or'
            ' child_row_events = "read"',
        )

    def complete(self, draft: ChangeDraft) -> None:
        """Chooses the values that each operation adds and removes; rejects or reads those unknown."""
        rows, moved = draft.pairs.after, draft.is_key_update
        updates = rows.operations == ChangeOperation.UPDATE
        alone = updates & ~draft.pairs.has_before
        changed = draft.chosen & self._is_value
        may_move = alone & (
            (draft.kinds == EventType.UPDATE_ROW_QUERY_BACK)
            | (draft.chosen & self._is_link).any(axis=1)
        )
        rows.reject(may_move, FORMER_PARENT_UNKNOWN)
        rows.reject(self._loses_link(draft, updates), LINK_REMOVED)
        unknown = (self._mark_removals(draft, changed) & ~self._mark_former_values(draft)).any(
            axis=1
        )
        unknown |= alone & changed.any(axis=1)
        if self.reads:
            rows.reject(unknown & moved, self._unknown_value)
        else:
            rows.reject(unknown, self._unknown_value)
        draft.kinds[:] = np.where(
            unknown, EventType.UPDATE_FIELD_QUERY_BACK, EventType.UPDATE_FIELD
        )
        whole = unknown | moved | (rows.operations == ChangeOperation.DELETE)
        draft.chosen = np.where(whole[:, np.newaxis], self._is_value, changed)

    def _loses_link(self, draft: ChangeDraft, updates: Flags) -> Flags:
        """Marks UPDATEs that set a column of the link to NULL."""
        rows = draft.pairs.after
        absent = ~images.mark_values(rows.batch, self._layout.data) & self._is_link
        told = draft.masked | (self._values_if_null(rows) & draft.differs)
        lost: Flags = updates & (absent & told).any(axis=1)
        return lost

    def _mark_removals(self, draft: ChangeDraft, changed: Matrix) -> Matrix:
        """Marks the values that an operation removes."""
        operations = draft.pairs.after.operations
        whole = (operations == ChangeOperation.DELETE) | draft.is_key_update
        removed: Matrix = np.where(whole[:, np.newaxis], self._is_value, changed)
        removed[operations == ChangeOperation.INSERT] = False
        return removed

    def _mark_former_values(self, draft: ChangeDraft) -> Matrix:
        """Marks the columns whose value before the change is known, which may be NULL."""
        rows, before = draft.pairs.after, draft.pairs.before
        data, null_is_value = self._layout.data, self._values_if_null(rows)
        after_values = images.mark_values(rows.batch, data)
        known = draft.masked | images.mark_values(before, data) | null_is_value
        if self._has_masks:  # a value outside the mask has not changed
            known |= draft.is_key_update[:, np.newaxis] & after_values
        deletes = rows.operations == ChangeOperation.DELETE
        known[deletes] = (after_values | null_is_value)[deletes]
        return known

    def before_and_after(self, draft: ChangeDraft) -> tuple[list[pa.Array], list[pa.Array]]:
        """Returns the values before and after; NULL where a child row did not exist for its parent."""
        operations = draft.pairs.after.operations
        deletes = pa.array(operations == ChangeOperation.DELETE)
        after = self.data_of(draft.pairs.after.batch)
        before = self.data_of(draft.pairs.before)
        came = pa.array(draft.is_key_update)
        old = [
            pc.if_else(deletes, last, pc.if_else(came, None, first))
            for first, last in zip(before, after, strict=True)
        ]
        return old, [pc.if_else(deletes, None, last) for last in after]

    def end(
        self, draft: ChangeDraft, which: Integers, _old_keys: RowKeys, _new_keys: RowKeys
    ) -> dict[str, object]:
        """Removes the values of moved rows from the objects of their former parents."""
        before, data, rows = draft.pairs.before, self._layout.data, draft.pairs.after
        if self._has_masks:
            gaps = draft.is_key_update[:, np.newaxis] & ~draft.masked & ~self._values_if_null(rows)
            before = images.fill_gaps(before, rows.batch, data, gaps)
        chosen = draft.chosen[which]
        values = self.data_of(before)
        nothing = [pa.nulls(len(column), pa.string()) for column in values]
        return {
            "event_type": EventType.UPDATE_FIELD.value,
            "columns": marked_names(self._spelled, chosen),
            "old": marked_values(values, chosen, which),
            "new": marked_values(nothing, chosen, which),
        }


class ReadingChildRowChangeBuilder(ChildRowChangeBuilder):
    """Builds the changes of child rows with ``child_row_events = "read"``."""

    reads = True


def create_builder(
    layout: ChangeTableLayout,
    reading: MaskReading | None,
    mask_key: Sequence[str],
    place: Place,
    ctx: Context,
    options: ChangeTableOptions,
    ranking: Ranking,
) -> ChangeTableChangeBuilder:
    """Creates the builder of changes of a table: of a class, or of a child table.

    ``mask_key`` are the key columns that masks show.

    Raises:
        FatalError: The table or its key is not known.
    """
    names = Names(ctx.catalogue, options.schema, options.identifier_case, ctx.lanes)
    columns = DataColumns(layout, names, options, place.file)
    key = key_of(layout, mask_key, columns.target, options, place.file)
    builder = ChangeTableChangeBuilder
    if columns.target.child is not None:
        reads = ctx.classes.child_row_events == "read"
        builder = ReadingChildRowChangeBuilder if reads else ChildRowChangeBuilder
    return builder(place, layout, reading, key, columns, names, options, ranking)

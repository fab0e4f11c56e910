"""Converts decoded operations to changes.

INSERT gives event type 1, DELETE type 4, and an operation on a BLOB type 8.  UPDATE gives type 2, or what
the setting ``update`` chooses, with the columns that differ; an UPDATE of the key gives types 4 and 1, or by
the setting ``key_change`` a change of the key and then an update of the other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from publisher.formats.columns.byte_areas import Mask
from publisher.formats.columns.key_changes import key_change_columns
from publisher.formats.columns.record_batches import child_columns
from publisher.formats.columns.row_images import differ, marked_names, marked_values
from publisher.formats.dispatch_queue.images.by_table import DecodedTable
from publisher.formats.dispatch_queue.operations import BLOB_TYPES, Operations
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows.layout import OperationCode
from publisher.formats.dispatch_queue.rows.rows import Codes
from publisher.model.change import EventType

_UPDATE_TYPES = {
    "changed": EventType.UPDATE_FIELD,
    "replaced": EventType.REPLACE_FIELD,
    "query-back": EventType.UPDATE_ROW_QUERY_BACK,
}
"""Event type of an UPDATE by the setting ``update``."""


class DispatchQueueChangeBuilder:
    """Builds the changes of some operations of one table."""

    def __init__(
        self,
        records: Callable[..., pa.RecordBatch],
        operations: Operations,
        options: DispatchQueueOptions,
        group: DecodedTable,
        chosen: Codes,
        lanes: pa.Array,
    ) -> None:
        """``records`` builds a batch from operations and columns; ``chosen`` are places in the group, and
        ``lanes`` are the lanes of its keys."""
        self._records, self._operations, self._options = records, operations, options
        self._group, self._chosen, self._lanes = group, chosen, lanes
        self._published = group.names.published
        self._types = group.types[chosen]
        self._second = group.second[chosen]
        self._update = self._types == OperationCode.UPDATE
        self._blob = np.isin(self._types, list(BLOB_TYPES))
        self._moved = self._update & self._differ(group.keys)
        self._marked = self._changed_columns()
        self.unchanged = self._find_updates_without_change()
        """Operations without a difference, which give no change."""
        self._is_key_only = self._moved & ~self._marked.any(axis=1) & options.joins_keys
        self._parts = operations.parts[group.numbers[chosen]]

    def _differ(self, texts: pa.Array) -> Mask:
        """Marks the UPDATEs whose two images differ."""
        marks = np.zeros(len(self._chosen), bool)
        places = np.flatnonzero(self._update)
        first = texts.take(pa.array(self._chosen[places]))
        marks[places] = differ(first, texts.take(pa.array(self._second[places])))
        return marks

    def _find_updates_without_change(self) -> Mask:
        """Marks the UPDATEs whose images differ neither in the key nor in a published column."""
        unchanged: Mask = self._update & ~self._moved & ~self._marked.any(axis=1)
        return unchanged

    def _changed_columns(self) -> Mask:
        """Returns a mask of the published columns that each operation sets or changes."""
        marked = np.zeros((len(self._chosen), len(self._published)), bool)
        for place, column in enumerate(self._published):
            if self._update.any():
                marked[:, place] = self._differ(self._group.texts[column])
        marked[self._types == OperationCode.INSERT] = True
        if not self._options.joins_keys:
            marked[self._moved] = True
        return marked

    def held_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the changes that a COMMIT would publish; unchanged UPDATEs with all their columns."""
        self._marked[self.unchanged] = True
        yield from self._changes(np.arange(len(self._chosen)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the changes of all operations except unchanged ones."""
        yield from self._changes(np.flatnonzero(~self.unchanged))

    def _changes(self, rows: Codes) -> Iterator[pa.RecordBatch]:
        """Yields the changes of some operations; for a changed key, a separate change of the old key."""
        blob, is_key_only = self._blob[rows], self._is_key_only[rows]
        if len(with_images := rows[~blob & ~is_key_only]):
            yield self._row_changes(with_images)
        if len(moved := rows[self._moved[rows]]):
            yield self._batch(
                moved,
                self._chosen[moved],
                ordinal=0,
                records=np.where(self._is_key_only, self._parts, 0)[moved].astype(np.int32),
                **self.end_of_keys(moved),
            )
        if blob.any():
            yield self._blob_changes(rows[blob])

    def end_of_keys(self, rows: Codes) -> dict[str, object]:
        """Returns the columns of the changes that end the old keys: deletes, or changes of keys."""
        if self._options.joins_keys:
            old, new = (
                self._group.keys.take(pa.array(images[rows])).to_pylist()
                for images in (self._chosen, self._second)
            )
            return key_change_columns(old, new)
        empty = pa.array([[]] * len(rows), pa.list_(pa.string()))
        return {"event_type": int(EventType.DELETE_ROW), "columns": empty}

    def _row_changes(self, rows: Codes) -> pa.RecordBatch:
        moved, update = self._moved[rows], self._update[rows]
        change = _UPDATE_TYPES[self._options.update]
        is_delete = self._types[rows] == OperationCode.DELETE
        kinds = np.where(is_delete, EventType.DELETE_ROW, EventType.INSERT_FIELD)
        kinds[update & (~moved | self._options.joins_keys)] = change
        marked = self._marked[rows]
        if change == EventType.UPDATE_ROW_QUERY_BACK:
            marked = marked & (kinds != change)[:, None]
        image = np.where(update, self._second[rows], self._chosen[rows])
        if not self._published and (kinds == 1).any():
            return self._key_only(rows, image, kinds, moved)
        texts = [self._group.texts[column] for column in self._published]
        return self._batch(
            rows,
            image,
            ordinal=moved.astype(np.int32),
            records=self._parts[rows],
            event_type=kinds.astype(np.int32),
            columns=marked_names([self._group.names.columns[n] for n in self._published], marked),
            old=marked_values(texts, marked, self._chosen[rows], kinds == 2),
            new=marked_values(texts, marked, image, np.isin(kinds, [1, 2, 3])),
        )

    def _key_only(self, rows: Codes, image: Codes, kinds: Codes, moved: Mask) -> pa.RecordBatch:
        """Builds changes of a table that has only key columns: an insert names the first one."""
        name = self._group.names.columns[self._group.names.key[0]]
        inserts = kinds == 1
        return self._batch(
            rows,
            image,
            ordinal=moved.astype(np.int32),
            event_type=kinds.astype(np.int32),
            columns=pa.array([[name] if i else [] for i in inserts], pa.list_(pa.string())),
            new=pa.array([[None] if i else None for i in inserts], pa.list_(pa.string())),
        )

    def _blob_changes(self, rows: Codes) -> pa.RecordBatch:
        names = self._group.names
        numbers = self._group.numbers[self._chosen[rows]]
        columns = self._operations.column("BLOBATR")[numbers] & 0xFF
        column_names = [[names.columns[names.numbers[number]]] for number in columns.tolist()]
        return self._batch(
            rows,
            self._chosen[rows],
            event_type=8,
            columns=pa.array(column_names, pa.list_(pa.string())),
        )

    def _batch(self, rows: Codes, image: Codes, **columns: Any) -> pa.RecordBatch:
        """Builds a batch of changes of some operations, each with the key of the given image."""
        group, count = self._group, len(rows)
        columns |= child_columns(group.names.child, columns["columns"])
        return self._records(
            group.numbers[self._chosen[rows]],
            lane=self._lanes.take(pa.array(image)),
            schema=pa.repeat(pa.scalar(group.names.schema, pa.string()), count),
            table=group.names.table,
            key=group.keys.take(pa.array(image)),
            **columns,
        )

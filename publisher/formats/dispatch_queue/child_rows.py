"""Converts decoded operations on the rows of a child table to changes of the parents' objects.

INSERT, UPDATE and DELETE give event type 2 with the values that are added and removed; an UPDATE that moves
the row to another parent gives one for each of both parents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.byte_areas import Mask
from publisher.formats.columns.row_images import marked_names, marked_values
from publisher.formats.dispatch_queue.images.by_table import DecodedTable
from publisher.formats.dispatch_queue.object_names import QueueTableNames
from publisher.formats.dispatch_queue.operations import Operations
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows.layout import OperationCode
from publisher.formats.dispatch_queue.rows.rows import Codes
from publisher.formats.dispatch_queue.to_changes import DispatchQueueChangeBuilder
from publisher.model.change import EventType


class DispatchQueueChildRowBuilder(DispatchQueueChangeBuilder):
    """Builds the changes of some operations on a child table."""

    def __init__(
        self,
        records: Callable[..., pa.RecordBatch],
        operations: Operations,
        options: DispatchQueueOptions,
        group: DecodedTable,
        chosen: Codes,
        lanes: pa.Array,
    ) -> None:
        """Takes the arguments of the base class; a row that moves to another parent changes no key."""
        plain = replace(options, key_change="delete-and-add")
        super().__init__(records, operations, plain, group, chosen, lanes)

    def _changed_columns(self) -> Mask:
        """Marks changed columns like the base class; a DELETE removes all values."""
        marked = super()._changed_columns()
        marked[self._types == OperationCode.DELETE] = True
        return marked

    def _find_updates_without_change(self) -> Mask:
        """Finds operations without a change, and operations on BLOB columns that are no attribute."""
        names, numbers = self._group.names, self._group.numbers[self._chosen]
        columns = self._operations.column("BLOBATR")[numbers] & 0xFF
        values = [
            number for number, place in names.numbers.items() if place in (names.values or ())
        ]
        return super()._find_updates_without_change() | (self._blob & ~np.isin(columns, values))

    def _row_changes(self, rows: Codes) -> pa.RecordBatch:
        update, marked = self._update[rows], self._marked[rows]
        image = np.where(update, self._second[rows], self._chosen[rows])
        removed = marked.copy()
        removed[(self._types[rows] == OperationCode.INSERT) | self._moved[rows]] = False
        added = marked & (self._types[rows] != OperationCode.DELETE)[:, None]
        return self._batch(
            rows,
            image,
            ordinal=self._moved[rows].astype(np.int32),
            records=self._parts[rows],
            event_type=EventType.UPDATE_FIELD.value,
            columns=self._names(marked),
            old=self._values(marked, removed, self._chosen[rows]),
            new=self._values(marked, added, image),
        )

    def end_of_keys(self, rows: Codes) -> dict[str, object]:
        """Removes the values of moved rows from the objects of their former parents."""
        marked = self._marked[rows]
        return {
            "event_type": EventType.UPDATE_FIELD.value,
            "columns": self._names(marked),
            "old": self._values(marked, marked, self._chosen[rows]),
            "new": self._values(marked, np.zeros_like(marked), self._chosen[rows]),
        }

    def _names(self, marked: Mask) -> pa.Array:
        return marked_names([self._group.names.columns[n] for n in self._published], marked)

    def _values(self, marked: Mask, present: Mask, image: Codes) -> pa.Array:
        """Lists the values of marked columns in an image, NULL where they are not ``present``."""
        texts = [self._group.texts[column].take(pa.array(image)) for column in self._published]
        shown = [
            pc.if_else(pa.array(present[:, place]), text, None) for place, text in enumerate(texts)
        ]
        return marked_values(shown, marked)


def builder_class(names: QueueTableNames) -> type[DispatchQueueChangeBuilder]:
    """Returns the class of the builder for a table: of a class, or of a child table."""
    is_child = names.values is not None
    return DispatchQueueChildRowBuilder if is_child else DispatchQueueChangeBuilder

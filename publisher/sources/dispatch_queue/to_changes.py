"""Decoded operations to changes: INSERT 1, UPDATE 2 of the columns that differ (a changed key 4, then 1),
DELETE 4, operations on a BLOB 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.sources.columns.byte_areas import Mask
from publisher.sources.dispatch_queue.images.by_table import Decoded
from publisher.sources.dispatch_queue.operations import BLOB_TYPES, Operations
from publisher.sources.dispatch_queue.options import Options
from publisher.sources.dispatch_queue.rows import layout
from publisher.sources.dispatch_queue.rows.rows import Codes


class Changes:
    """The changes of some operations of one table."""

    def __init__(
        self,
        records: Callable[..., pa.RecordBatch],
        operations: Operations,
        options: Options,
        group: Decoded,
        chosen: Codes,
        lanes: pa.Array,
    ) -> None:
        """``records`` makes a batch of operations and columns; ``chosen`` are places in the group,
        ``lanes`` those of its keys."""
        self._records, self._operations, self._options = records, operations, options
        self._group, self._chosen, self._lanes = group, chosen, lanes
        self._others = group.names.others
        self._types = group.types[chosen]
        self._second = group.second[chosen]
        self._update = self._types == layout.UPDATE
        self._blob = np.isin(self._types, list(BLOB_TYPES))
        self._moved = self._update & self._differ(group.keys)
        self._marked = self._columns_said()
        self.idle: Mask = self._update & ~self._moved & ~self._marked.any(axis=1)
        """Which give nothing."""

    def _differ(self, texts: pa.Array) -> Mask:
        """Of UPDATEs where the two images differ; NULL differs from every value."""
        found = np.zeros(len(self._chosen), bool)
        places = np.flatnonzero(self._update)
        one = texts.take(pa.array(self._chosen[places]))
        other = texts.take(pa.array(self._second[places]))
        same = pc.fill_null(pc.equal(one, other), False)
        same = pc.or_(same, pc.and_(one.is_null(), other.is_null()))
        found[places] = ~same.to_numpy(zero_copy_only=False)
        return found

    def _columns_said(self) -> Mask:
        """Which of the published columns each operation speaks of."""
        marked = np.zeros((len(self._chosen), len(self._others)), bool)
        for place, column in enumerate(self._others):
            if self._update.any():
                marked[:, place] = self._differ(self._group.texts[column])
        marked[(self._types == layout.INSERT) | self._moved] = True
        return marked

    def held_batches(self) -> Iterator[pa.RecordBatch]:
        """The changes that a COMMIT would publish; an UPDATE that changes nothing with all its columns."""
        self._marked[self.idle] = True
        yield from self._some(np.arange(len(self._chosen)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, without those that give nothing."""
        yield from self._some(np.flatnonzero(~self.idle))

    def _some(self, rows: Codes) -> Iterator[pa.RecordBatch]:
        """The changes of some operations; of a changed key the delete of the old one is apart."""
        blob, plain = rows[self._blob[rows]], rows[~self._blob[rows]]
        if len(plain):
            yield self._plain(plain)
        moved = rows[self._moved[rows]]
        if len(moved):
            empty = pa.array([[]] * len(moved), pa.list_(pa.string()))
            yield self._batch(
                moved, self._chosen[moved], ordinal=0, records=0, event_type=4, columns=empty
            )
        if len(blob):
            yield self._blobs(blob)

    def _plain(self, rows: Codes) -> pa.RecordBatch:
        moved, update = self._moved[rows], self._update[rows]
        change = {"changed": 2, "replaced": 3, "query-back": 6}[self._options.update]
        kinds = np.where(self._types[rows] == layout.DELETE, 4, 1)
        kinds[update & ~moved] = change
        marked = self._marked[rows]
        if change == 6:
            marked = marked & (kinds != 6)[:, None]
        image = np.where(update, self._second[rows], self._chosen[rows])
        records = self._operations.parts[self._group.numbers[self._chosen[rows]]]
        if not self._others and (kinds == 1).any():
            return self._key_only(rows, image, kinds, moved)
        return self._batch(
            rows,
            image,
            ordinal=moved.astype(np.int32),
            records=records,
            event_type=kinds.astype(np.int32),
            columns=self._lists(None, marked, np.ones(len(rows), bool)),
            old=self._lists(self._chosen[rows], marked, kinds == 2),
            new=self._lists(image, marked, np.isin(kinds, [1, 2, 3])),
        )

    def _key_only(self, rows: Codes, image: Codes, kinds: Codes, moved: Mask) -> pa.RecordBatch:
        """An insert says something of one column at least, as event logs do."""
        name = self._group.names.spelled[self._group.names.key[0]]
        inserts = kinds == 1
        return self._batch(
            rows,
            image,
            ordinal=moved.astype(np.int32),
            event_type=kinds.astype(np.int32),
            columns=pa.array([[name] if i else [] for i in inserts], pa.list_(pa.string())),
            new=pa.array([[None] if i else None for i in inserts], pa.list_(pa.string())),
        )

    def _blobs(self, rows: Codes) -> pa.RecordBatch:
        names = self._group.names
        numbers = self._group.numbers[self._chosen[rows]]
        columns = self._operations.column("BLOBATR")[numbers] & 0xFF
        spelled = [[names.spelled[names.numbers[number]]] for number in columns.tolist()]
        return self._batch(
            rows,
            self._chosen[rows],
            event_type=8,
            columns=pa.array(spelled, pa.list_(pa.string())),
        )

    def _batch(self, rows: Codes, image: Codes, **own: object) -> pa.RecordBatch:
        """Changes of some rows, with the key of the image named."""
        group, count = self._group, len(rows)
        return self._records(
            group.numbers[self._chosen[rows]],
            lane=self._lanes.take(pa.array(image)),
            schema=pa.repeat(pa.scalar(group.names.schema, pa.string()), count),
            table=group.names.table,
            key=group.keys.take(pa.array(image)),
            **own,
        )

    def _lists(self, image: Codes | None, marked: Mask, there: Mask) -> pa.Array:
        """Names (without ``image``) or values of the marked columns of each row, where ``there``."""
        marked = marked & there[:, None]
        offsets = np.zeros(len(marked) + 1, np.int32)
        np.cumsum(marked.sum(axis=1), out=offsets[1:])
        at, places = np.nonzero(marked)
        spelled = [self._group.names.spelled[column] for column in self._others]
        if image is None:
            values = pa.array(spelled, pa.string()).take(pa.array(places))
        elif not len(at):
            values = pa.array([], pa.string())
        else:
            columns = [self._group.texts[column] for column in self._others]
            values = pa.concat_arrays(columns).take(pa.array(places * len(columns[0]) + image[at]))
        absent = None if there.all() else pa.array(~there)
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=absent)

"""Operations to changes: which event type, which columns, by what the record carries.

================================  =====================================================
INSERT                            1, the columns of its mask (all without one)
UPDATE with before image          2, the columns of its mask, else those that differ
UPDATE without                    3, the columns of its mask; without mask by setting
UPDATE of the key, with           4 of the old key, then 1 of the new row (5 by setting)
UPDATE of the key, without        rejected, or 6, by setting
DELETE                            4
================================  =====================================================

A column outside the mask is absent, NULL inside the mask is NULL; the UPDATE's mask says what counts
in its before image too.  The key is read from the row, its bits set or not.  A mask of 128 bytes says
nothing of the columns beyond bit 1023 (manual, change_mask): there the images decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from publisher.model.change import Reason
from publisher.sources.change_table import images
from publisher.sources.change_table.before_images import ALONE, PairedRows
from publisher.sources.change_table.change_seq import Flags, Integers, Ranking
from publisher.sources.change_table.images import Matrix
from publisher.sources.change_table.keys import KeyReader, RowKeys
from publisher.sources.change_table.layout import ChangeTableLayout
from publisher.sources.change_table.mask_calibration import MaskReading, covered
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.rejects import RejectBuilder
from publisher.sources.change_table.rows import ChangeOperation, ChangeRows
from publisher.sources.change_table.values import DataColumns
from publisher.sources.columns.columns import times
from publisher.sources.columns.object_names import Fault, Names
from publisher.sources.columns.record_batches import Place, batch

_DAY = 86_400_000_000

NO_OLD_KEY = Fault(
    Reason.KEY_CHANGE,
    "the key was changed and there is no before image with the old one; store before images, or set"
    ' key_change = "query-back"',
)
KEY_DIFFERS = Fault(
    Reason.CHANGE_MASK,
    "the key differs from the before image and its bit is not set; check mask_order, header_columns, key",
)
UNCOVERED = Fault(
    Reason.UNMASKED_UPDATE,
    "change_mask ends at bit 1023, and the columns beyond may have changed; store before images, or set"
    ' images = "full" or "sparse", or unmasked_update = "query-back"',
)
UNMASKED = Fault(
    Reason.UNMASKED_UPDATE,
    "an UPDATE without change_mask, and NULL may be a value or not supplied; keep change_mask in the"
    ' task, or set images = "full" or "sparse", or unmasked_update = "query-back"',
)


@dataclass(slots=True)
class _Draft:
    """What is known of some operations on their way."""

    joined: PairedRows
    masked: Matrix
    """The columns of each mask."""
    has_mask: Flags
    differs: Matrix
    """Columns that differ from the before image; nothing where there is none."""
    chosen: Matrix
    """The columns of each change."""
    kinds: Integers
    """Event type of each change."""
    moved: Flags
    """UPDATEs of the key with the old one."""
    marked: Matrix
    """The columns that were chosen before whole rows were made of new keys."""
    unknown: Matrix
    """Columns of a new key's row that no image supplies."""


class ChangeTableChangeBuilder:
    """Makes records of the operations of one split."""

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
        self._columns = columns
        self._keys = KeyReader(key, columns, names, place.lanes)
        self._options = options
        self._ranking = ranking
        self.rejects = RejectBuilder(place, columns.target, ranking)
        self._spelled = pa.array([columns.name(name) for name in layout.data], pa.string())
        width = len(layout.data)
        self._beyond = np.arange(width) >= (width if reading is None else covered(reading, width))
        """Columns that have no bit in a mask of 128 bytes."""

    def records(self, joined: PairedRows) -> Iterator[pa.RecordBatch]:
        """Changes, then rejects."""
        step = self._step(joined)
        rows = joined.after
        times_ = self._moments(rows)
        new_keys = self._keys.of(rows, rows.batch, joined.before)
        live = np.ones(len(rows), bool)
        live[list(rows.faults)] = False
        old_keys = None
        if (step.moved & live).any():
            old_keys = self._keys.of(rows, joined.before, None, which=step.moved & live)
            live[list(rows.faults)] = False
            self._stay(step, new_keys, old_keys)
            self._gaps(step)
            live[list(rows.faults)] = False
        if live.any():
            yield from self._changes(step, np.flatnonzero(live), new_keys, old_keys, times_)
        if rows.faults:
            yield from self.rejects.of(joined)

    def _step(self, joined: PairedRows) -> _Draft:
        rows, size = joined.after, (len(joined.after), len(self._layout.data))
        masked, has_mask = self._masks(rows)
        differs = np.zeros(size, bool)
        if joined.has_before.any():
            differs = images.differing(rows.batch, joined.before, self._layout.data)
            differs[~joined.has_before] = False
        step = _Draft(
            joined, masked, has_mask, differs, masked.copy(), rows.operations.copy(),
            np.zeros(size[0], bool), masked, np.zeros(size, bool),
        )  # fmt: skip
        rows.fault(rows.operations == ChangeOperation.BEFORE_IMAGE, ALONE)
        step.kinds[rows.operations == ChangeOperation.DELETE] = 4
        step.chosen[rows.operations == ChangeOperation.DELETE] = False
        inserts = rows.operations == ChangeOperation.INSERT
        step.chosen[inserts & ~has_mask] = True
        self._updates(step, rows.operations == ChangeOperation.UPDATE)
        for place, name in enumerate(self._layout.data):
            fault = self._columns.faults.get(name)
            if fault is not None:
                rows.fault(step.chosen[:, place], fault)
        return step

    def _updates(self, step: _Draft, updates: Flags) -> None:
        rows, has_before = step.joined.after, step.joined.has_before
        step.kinds[updates] = np.where(has_before[updates], 2, 3)
        if self._reading is None:
            self._unmasked(step, updates)
        supplied = images.supplied(rows.batch, self._key)
        differs = step.differs[:, self._key_places] & supplied
        bits = step.masked[:, self._key_places]
        if self._reading is not None:
            rows.fault(updates & has_before & (differs & ~bits).any(axis=1), KEY_DIFFERS)
            lost = updates & ~has_before & bits.any(axis=1)
            if self._options.key_change == "reject":
                rows.fault(lost, NO_OLD_KEY)
            if self._beyond.any() and step.joined.apart:
                self._uncovered(step, updates & ~lost)
            self._refuse_unmarked(step, updates & has_before)
            step.kinds[lost] = 6
            step.chosen[lost] = False
        step.moved = updates & has_before & differs.any(axis=1)
        if step.moved.any():
            self._whole_row(step)

    def _unmasked(self, step: _Draft, updates: Flags) -> None:
        """UPDATEs of a table whose mask is not kept."""
        everything = np.ones(len(self._layout.data), bool)
        step.chosen[updates] = False
        self._by_images(step, updates, everything, UNMASKED)

    def _uncovered(self, step: _Draft, updates: Flags) -> None:
        """Columns beyond the last bit of a mask of 128 bytes; a mask with such a bit is longer."""
        ends = ~step.masked[:, self._beyond].any(axis=1)
        inserts = ends & step.has_mask & (step.joined.after.operations == ChangeOperation.INSERT)
        supplied = images.supplied(step.joined.after.batch, self._layout.data)
        step.chosen |= inserts[:, np.newaxis] & supplied & self._beyond
        self._by_images(step, updates & ends, self._beyond, UNCOVERED)

    def _by_images(self, step: _Draft, updates: Flags, places: Flags, fault: Fault) -> None:
        """Chooses among the columns ``places``, of which no mask says anything."""
        rows, meant = step.joined.after, self._options.images
        supplied = images.supplied(rows.batch, self._layout.data) & places
        differs = step.differs & places
        with_before = updates & step.joined.has_before
        chosen = differs & supplied if meant == "sparse" else differs
        step.chosen[with_before] |= chosen[with_before]
        if meant is None:
            rows.fault(with_before & (differs & ~supplied).any(axis=1), fault)
        alone = updates & ~step.joined.has_before
        if self._options.unmasked_update == "query-back":
            step.kinds[alone] = 6
            step.chosen[alone] = False
        elif meant is None:
            rows.fault(alone, fault)
        else:
            step.chosen[alone] |= supplied[alone] if meant == "sparse" else places

    def _refuse_unmarked(self, step: _Draft, updates: Flags) -> None:
        """UPDATEs that differ from their before image in a column that they do not mark as changed.

        NULL in an UPDATE outside its mask is not supplied, unless images are said to be full."""
        rows, data = step.joined.after, self._layout.data
        wrong: Matrix = step.differs & ~step.chosen & updates[:, np.newaxis]
        wrong[:, self._key_places] = False
        if wrong.any():
            wrong &= self._full(rows) | images.supplied(rows.batch, data)
            if self._options.images == "sparse":
                wrong &= images.supplied(step.joined.before, data)
        hits = np.asarray(wrong.any(axis=1))
        rows.fault(hits, lambda row: images.unmarked_fault(data, wrong[row]))

    def _whole_row(self, step: _Draft) -> None:
        """The new row of a changed key: what the UPDATE says, else what was there before."""
        moved, rows, before = step.moved, step.joined.after, step.joined.before
        data = self._layout.data
        known = step.masked | self._full(rows)
        step.kinds[moved] = 1
        step.marked = step.chosen.copy()
        step.chosen[moved] = True
        open_ = moved[:, np.newaxis] & ~known
        rows.batch = images.completed(rows.batch, before, data, open_)
        step.unknown = open_ & ~images.supplied(rows.batch, data)

    def _full(self, rows: ChangeRows) -> Matrix:
        """The columns whose NULL is a value though no mask marks them: those of a columnMask, which
        says what a message supplies, else all where images are full."""
        size = (len(rows), len(self._layout.data))
        full = np.full(size, self._options.images == "full")
        name = self._layout.headers.get("column_mask")
        if name is None or self._reading is None:
            return full
        listed = self._columns_in(rows, name)
        return np.where(listed.any(axis=1, keepdims=True), listed, full)

    def _gaps(self, step: _Draft) -> None:
        """Columns of the row of a new key that no image supplies: never NULL, by setting."""
        moved = step.moved
        gaps: Matrix = step.unknown & moved[:, np.newaxis]
        hits = np.asarray(gaps.any(axis=1))
        step.chosen[moved] = ~gaps[moved]
        if self._options.key_change_gaps == "reject":
            names = self._layout.data
            step.joined.after.fault(hits, lambda row: images.gap_fault(names, gaps[row]))
        elif self._options.key_change_gaps == "query-back":
            step.kinds[hits] = 5
            step.chosen[hits] = False

    def _stay(self, step: _Draft, new_keys: RowKeys, old_keys: RowKeys) -> None:
        """UPDATEs that only write the key differently (``01`` for ``1``) change no key."""
        for row in np.flatnonzero(step.moved).tolist():
            if new_keys.text(row) == old_keys.text(row):
                step.moved[row] = False
                step.kinds[row] = 2
                step.chosen[row] = step.marked[row]

    def _masks(self, rows: ChangeRows) -> tuple[Matrix, Flags]:
        """The columns of each mask, and which rows have one that is not empty."""
        if self._reading is None:
            width = len(self._layout.data)
            return np.zeros((len(rows), width), bool), np.zeros(len(rows), bool)
        masked = self._columns_in(rows, self._layout.headers["change_mask"])
        return masked, np.asarray(masked.any(axis=1))

    def _columns_in(self, rows: ChangeRows, name: str) -> Matrix:
        """The columns of each mask in a header column; rows with a mask that is none are rejected."""
        assert self._reading is not None
        column, width = rows.batch.column(name), len(self._layout.data)
        columns, problems = images.columns_in(column, self._reading, width)
        if problems:
            is_before = rows.operations == ChangeOperation.BEFORE_IMAGE
            for row in (
                problems.keys() - set(np.flatnonzero(is_before).tolist()) - rows.faults.keys()
            ):
                rows.faults[row] = problems[row]
        return columns

    def _moments(self, rows: ChangeRows) -> Integers | None:
        """Header timestamps; the first day of 1970 says that it was not known (manual, timestamp)."""
        name = self._layout.headers.get("timestamp")
        if name is None:
            return None
        column = rows.batch.column(name)
        moments, known = times(column, self._options.time_zone)
        given = column.is_valid().to_numpy(zero_copy_only=False)
        rows.fault(
            given & ~known,
            lambda row: Fault(
                Reason.EVENT_TIME,
                f"{name} {str(rows.value(name, row))[:60]!r} is no time; write"
                " yyyy-mm-dd hh:mm:ss[.fffffffff] [zone]",
            ),
        )
        unknown = ~known | ((moments >= 0) & (moments < _DAY))
        return np.where(unknown, -1, moments)

    def _changes(
        self,
        step: _Draft,
        live: Integers,
        new_keys: RowKeys,
        old_keys: RowKeys | None,
        moments: Integers | None,
    ) -> Iterator[pa.RecordBatch]:
        rows = step.joined.after
        kinds, moved = step.kinds[live], step.moved[live]
        chosen = step.chosen[live]
        old = (kinds == 2) & ~moved
        new = kinds <= 3
        yield self._batch(
            rows,
            live,
            new_keys,
            moments,
            ordinal=moved.astype(np.int32),
            records=np.where(moved, 1, step.joined.records[live]).astype(np.int32),
            event_type=kinds.astype(np.int32),
            columns=self._lists(None, chosen, live, np.ones(len(live), bool)),
            old=self._lists(step.joined.before, chosen, live, old),
            new=self._lists(rows.batch, chosen, live, new),
        )
        gone = live[moved]
        if len(gone) and old_keys is not None:
            empty = pa.array([[]] * len(gone), pa.list_(pa.string()))
            yield self._batch(
                rows,
                gone,
                old_keys,
                moments,
                ordinal=0,
                records=int(step.joined.apart),
                event_type=4,
                columns=empty,
            )

    def _batch(
        self,
        rows: ChangeRows,
        which: Integers,
        keys: RowKeys,
        moments: Integers | None,
        **own: object,
    ) -> pa.RecordBatch:
        """Changes of some rows."""
        texts, lanes = keys.of(which)
        times_ = None
        if moments is not None:
            times_ = pa.array(moments[which], mask=moments[which] < 0)
        transaction = self._layout.headers.get("transaction_id")
        return batch(
            len(which),
            source=self._place.source,
            lane=lanes,
            part="",
            rank=self._ranking.ranks(rows.high[which], rows.low[which]),
            high=rows.high[which],
            low=rows.low[which],
            split=self._place.split,
            row=rows.numbers[which],
            schema=self._columns.target.schema,
            table=self._columns.target.table,
            key=texts,
            event_time=times_,
            transaction=(
                rows.batch.column(transaction).take(pa.array(which)) if transaction else None
            ),
            **own,
        )

    def _lists(
        self, image: pa.RecordBatch | None, chosen: Matrix, live: Integers, there: Flags
    ) -> pa.Array:
        """Names (without ``image``) or values of the chosen columns of each row, where ``there``."""
        marked = chosen & there[:, np.newaxis]
        offsets = np.zeros(len(live) + 1, np.int32)
        np.cumsum(marked.sum(axis=1), out=offsets[1:])
        at, places = np.nonzero(marked)
        if image is None:
            values = self._spelled.take(pa.array(places))
        else:
            # one long column of all data columns, then the chosen ones row by row
            columns = [image.column(name) for name in self._layout.data]
            values = pa.concat_arrays(columns).take(pa.array(places * image.num_rows + live[at]))
        absent = None if there.all() else pa.array(~there)
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=absent)

"""Operations to changes: which event type, which columns, by what the record carries.

================================  =====================================================
INSERT                            1, the columns of its mask (all without one)
UPDATE with before image          2, the columns of its mask, else those that differ
UPDATE without                    3, the columns of its mask; without mask by setting
UPDATE of the key, with           4 of the old key, then 1 of the new row
UPDATE of the key, without        rejected, or 6, by setting
DELETE                            4
================================  =====================================================

A column outside the mask is absent, NULL inside the mask is NULL; the UPDATE's mask says what counts
in its before image too.  The key is read from the row, its bits set or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.change import Outcome, Reason
from publisher.sources.change_table.calibration import Reading, columns_of
from publisher.sources.change_table.joining import ALONE, Joined
from publisher.sources.change_table.keys import FoundKeys, Keys
from publisher.sources.change_table.layout import Layout
from publisher.sources.change_table.mask import MaskProblem
from publisher.sources.change_table.options import Options
from publisher.sources.change_table.rows import RAW, Operation, Rows
from publisher.sources.change_table.seq import Flags, Integers, Ranking
from publisher.sources.change_table.values import Columns
from publisher.sources.columns import times
from publisher.sources.event_log_names import Fault, Names
from publisher.sources.record_batches import Place, as_json, batch, nameless

Matrix = npt.NDArray[np.bool_]
"""By row and data column."""

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
UNMASKED = Fault(
    Reason.UNMASKED_UPDATE,
    "an UPDATE without change_mask, and NULL may be a value or not supplied; keep change_mask in the"
    ' task, or set images = "full" or "sparse", or unmasked_update = "query-back"',
)


@dataclass(slots=True)
class _Step:
    """What is known of some operations on their way."""

    joined: Joined
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


class Meaning:
    """Makes records of the operations of one split."""

    def __init__(
        self,
        place: Place,
        layout: Layout,
        reading: Reading | None,
        key: tuple[str, ...],
        columns: Columns,
        names: Names,
        options: Options,
        ranking: Ranking,
    ) -> None:
        self._place = place
        self._layout = layout
        self._reading = reading
        self._key = key
        self._key_places = [layout.data.index(name) for name in key]
        self._columns = columns
        self._keys = Keys(key, columns, names, place.lanes)
        self._options = options
        self._ranking = ranking
        self._spelled = pa.array([columns.name(name) for name in layout.data], pa.string())

    def records(self, joined: Joined) -> Iterator[pa.RecordBatch]:
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
        if live.any():
            yield from self._changes(step, np.flatnonzero(live), new_keys, old_keys, times_)
        if rows.faults:
            yield self.rejected(rows, joined.records)

    def rejected(self, rows: Rows, records: Integers | None = None) -> pa.RecordBatch:
        """The rows with a fault as rejects; ``records`` is how many records each stands for."""
        which = np.array(sorted(rows.faults), np.int64)
        faults = [rows.faults[row] for row in which.tolist()]
        placed, numbers = rows.placed[which], rows.numbers[which]
        high = np.where(placed, rows.high[which], numbers)
        return nameless(
            self._place,
            numbers,
            part=pa.array(np.where(placed, "", self._place.name), pa.string()),
            rank=np.where(placed, self._ranking.ranks(high, rows.low[which]), numbers),
            high=high,
            low=np.where(placed, rows.low[which], 0),
            records=1 if records is None else records[which].astype(np.int32),
            schema=self._columns.target.schema,
            table=self._columns.target.table,
            outcome=Outcome.REJECTED.value,
            reason=pa.array([str(fault.reason) for fault in faults]),
            detail=pa.array([fault.detail for fault in faults]),
            raw=_raw(rows.batch.take(pa.array(which))),
        )

    def _step(self, joined: Joined) -> _Step:
        rows, size = joined.after, (len(joined.after), len(self._layout.data))
        masked, has_mask = self._masks(rows)
        differs = np.zeros(size, bool)
        if joined.has_before.any():
            for place, name in enumerate(self._layout.data):
                differs[:, place] = _differ(rows.batch.column(name), joined.before.column(name))
            differs[~joined.has_before] = False
        step = _Step(
            joined, masked, has_mask, differs, masked.copy(), rows.operations.copy(),
            np.zeros(size[0], bool),
        )  # fmt: skip
        rows.fault(rows.operations == Operation.BEFORE_IMAGE, ALONE)
        step.kinds[rows.operations == Operation.DELETE] = 4
        step.chosen[rows.operations == Operation.DELETE] = False
        inserts = rows.operations == Operation.INSERT
        step.chosen[inserts & ~has_mask] = True
        self._updates(step, rows.operations == Operation.UPDATE)
        for place, name in enumerate(self._layout.data):
            fault = self._columns.faults.get(name)
            if fault is not None:
                rows.fault(step.chosen[:, place], fault)
        return step

    def _updates(self, step: _Step, updates: Flags) -> None:
        rows, has_before = step.joined.after, step.joined.has_before
        step.kinds[updates] = np.where(has_before[updates], 2, 3)
        if self._reading is None:
            self._unmasked(step, updates)
        supplied = self._supplied(rows, self._key)
        differs = step.differs[:, self._key_places] & supplied
        bits = step.masked[:, self._key_places]
        if self._reading is not None:
            rows.fault(updates & has_before & (differs & ~bits).any(axis=1), KEY_DIFFERS)
            lost = updates & ~has_before & bits.any(axis=1)
            if self._options.key_change == "reject":
                rows.fault(lost, NO_OLD_KEY)
            step.kinds[lost] = 6
            step.chosen[lost] = False
        step.moved = updates & has_before & differs.any(axis=1)
        if step.moved.any():
            self._whole_row(step)

    def _unmasked(self, step: _Step, updates: Flags) -> None:
        """UPDATEs of a table whose mask is not kept."""
        rows, images = step.joined.after, self._options.images
        supplied = self._supplied(rows, self._layout.data)
        differing = step.differs & supplied if images == "sparse" else step.differs
        with_before = updates & step.joined.has_before
        step.chosen[with_before] = differing[with_before]
        if images is None:
            rows.fault(with_before & (step.differs & ~supplied).any(axis=1), UNMASKED)
        alone = updates & ~step.joined.has_before
        if self._options.unmasked_update == "query-back":
            step.kinds[alone] = 6
        elif images is None:
            rows.fault(alone, UNMASKED)
        else:
            step.chosen[alone] = supplied[alone] if images == "sparse" else True

    def _whole_row(self, step: _Step) -> None:
        """The new row of a changed key: what the UPDATE says, else what was there before."""
        moved = step.moved
        step.kinds[moved] = 1
        step.chosen[moved] = True
        rows = step.joined.after
        known = (
            step.masked | (self._options.images == "full") if self._reading is None else step.masked
        )
        arrays = []
        for place, name in enumerate(self._layout.data):
            ours = rows.batch.column(name)
            open_ = pc.and_(pa.array(moved & ~known[:, place]), ours.is_null())
            arrays.append(pc.if_else(open_, step.joined.before.column(name), ours))
        names = rows.batch.schema.names
        by_name = {name: rows.batch.column(name) for name in names}
        by_name |= dict(zip(self._layout.data, arrays, strict=True))
        rows.batch = pa.RecordBatch.from_arrays([by_name[name] for name in names], names=names)

    def _stay(self, step: _Step, new_keys: FoundKeys, old_keys: FoundKeys) -> None:
        """UPDATEs that only write the key differently (``01`` for ``1``) change no key."""
        for row in np.flatnonzero(step.moved).tolist():
            if new_keys.text(row) == old_keys.text(row):
                step.moved[row] = False
                step.kinds[row] = 2
                step.chosen[row] = (step.differs if self._reading is None else step.masked)[row]

    def _supplied(self, rows: Rows, names: tuple[str, ...]) -> Matrix:
        """Which values of some columns are not NULL."""
        found = np.zeros((len(rows), len(names)), bool)
        for place, name in enumerate(names):
            found[:, place] = rows.batch.column(name).is_valid().to_numpy(zero_copy_only=False)
        return found

    def _masks(self, rows: Rows) -> tuple[Matrix, Flags]:
        """The columns of each mask, and which rows have one that is not empty."""
        width = len(self._layout.data)
        if self._reading is None:
            return np.zeros((len(rows), width), bool), np.zeros(len(rows), bool)
        column = rows.batch.column(self._layout.headers["change_mask"])
        encoded = pc.dictionary_encode(pc.utf8_trim_whitespace(column).fill_null(""))
        codes = encoded.indices.to_numpy()
        size = (width + 7) // 8
        octets, problems = bytearray(), {}
        for code, mask in enumerate(encoded.dictionary.to_pylist()):
            bits = 0
            try:
                bits = columns_of(mask, self._reading, width)
            except MaskProblem as problem:
                problems[code] = Fault(Reason.CHANGE_MASK, str(problem))
            octets += bits.to_bytes(size, "little")
        table = np.frombuffer(bytes(octets), np.uint8).reshape(-1, size)
        unpacked = np.unpackbits(table, axis=1, count=width, bitorder="little").astype(bool)
        if problems:
            wrong = np.isin(codes, list(problems)) & (rows.operations != Operation.BEFORE_IMAGE)
            rows.fault(wrong, lambda row: problems[int(codes[row])])
        masked = unpacked[codes]
        return masked, masked.any(axis=1)

    def _moments(self, rows: Rows) -> Integers | None:
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
        step: _Step,
        live: Integers,
        new_keys: FoundKeys,
        old_keys: FoundKeys | None,
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
        self, rows: Rows, which: Integers, keys: FoundKeys, moments: Integers | None, **own: object
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


def _raw(records: pa.RecordBatch) -> pa.Array:
    """The records as JSON text."""
    if RAW in records.schema.names:
        return records.column(RAW)
    return pa.array([as_json(record) for record in records.to_pylist()], pa.string())


def _differ(one: pa.Array, other: pa.Array) -> Flags:
    """Where two columns hold different values; NULL differs from every value."""
    same = pc.fill_null(pc.equal(one, other), False)
    same = pc.or_(same, pc.and_(one.is_null(), other.is_null()))
    found: Flags = ~same.to_numpy(zero_copy_only=False)
    return found

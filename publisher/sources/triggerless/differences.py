"""What a comparison finds, as columns: changes, and rows that are rejected or there once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import EventType, Outcome, Reason
from publisher.sources.columns.record_batches import as_json
from publisher.sources.triggerless.hashing import Hashes

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

FOUND_SCHEMA = pa.schema(
    [
        ("hash", pa.uint64()),
        ("key", pa.string()),
        ("event_type", pa.int32()),
        ("columns", pa.list_(pa.string())),
        ("old", pa.list_(pa.string())),
        ("new", pa.list_(pa.string())),
        ("outcome", pa.int32()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("raw", pa.string()),
    ]
)
"""One row for each change and each rejected or doubled row; ``outcome`` and what follows as in
``RECORD_SCHEMA``."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table, by the hash of their keys."""

    hashes: Hashes
    keys: pa.Array
    values: Sequence[pa.Array]
    """Text of each compared column."""

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, places: Places) -> Rows:
        """Some of the rows."""
        which = pa.array(places)
        return Rows(
            self.hashes[places], self.keys.take(which), [v.take(which) for v in self.values]
        )


@dataclass(slots=True)
class Found:
    """Collects what a comparison of a table finds."""

    columns: Sequence[str]
    """Names of the compared columns."""
    pieces: list[pa.RecordBatch] = field(default_factory=list)

    def fresh(self, rows: Rows, *, replace: bool) -> None:
        """Rows that were not known: inserts, or updates that replace all values."""
        if not len(rows):
            return
        chosen = np.ones((len(rows), len(self.columns)), bool)
        if not replace:  # of an insert NULL is no attribute
            for place, values in enumerate(rows.values):
                chosen[:, place] = values.is_valid().to_numpy(zero_copy_only=False)
        event = EventType.REPLACE_FIELD if replace else EventType.INSERT_FIELD
        self._add(
            rows.hashes,
            rows.keys,
            event_type=event.value,
            columns=self._names(chosen),
            new=_lists(rows.values, chosen),
        )

    def changed(self, rows: Rows, chosen: Mask, old: Sequence[pa.Array] | None) -> None:
        """Rows of which the chosen columns have changed; ``old`` has the old values, by column."""
        if not len(rows):
            return
        event = EventType.REPLACE_FIELD if old is None else EventType.UPDATE_FIELD
        self._add(
            rows.hashes,
            rows.keys,
            event_type=event.value,
            columns=self._names(chosen),
            old=None if old is None else _lists(old, chosen),
            new=_lists(rows.values, chosen),
        )

    def gone(self, hashes: Hashes, keys: pa.Array) -> None:
        """Rows that are not there any more."""
        if len(keys):
            self._add(
                hashes,
                keys,
                event_type=EventType.DELETE_ROW.value,
                columns=pa.array([[]] * len(keys), pa.list_(pa.string())),
            )

    def once_more(self, rows: Rows) -> None:
        """Rows that are the same as another."""
        self._add(
            rows.hashes,
            rows.keys,
            outcome=Outcome.IGNORED.value,
            reason=str(Reason.DUPLICATE),
        )

    def not_alone(self, rows: Rows) -> None:
        """Rows that differ and have one key."""
        self._add(
            rows.hashes,
            rows.keys,
            outcome=Outcome.REJECTED.value,
            reason=str(Reason.DOUBLE_RECORD),
            detail="several rows have this key and differ: name key columns that tell rows apart",
            raw=[as_json(self.record(rows, row)) for row in range(len(rows))],
        )

    def record(self, rows: Rows, row: int) -> dict[str, object]:
        """A row for people."""
        named = zip(self.columns, rows.values, strict=True)
        return {"key": rows.keys[row].as_py()} | {name: v[row].as_py() for name, v in named}

    def sorted(self) -> pa.RecordBatch:
        """All that was found, by hash and key."""
        if not self.pieces:
            return pa.RecordBatch.from_pylist([], schema=FOUND_SCHEMA)
        whole = pa.concat_batches(self.pieces)
        order = ("hash", "key", "event_type", "raw")
        return whole.take(pc.sort_indices(whole, [(name, "ascending") for name in order]))

    def _names(self, chosen: Mask) -> pa.Array:
        _, places = np.nonzero(chosen)
        names = pa.array(list(self.columns), pa.string())
        return _as_lists(names.take(pa.array(places)), chosen)

    def _add(self, hashes: Hashes, keys: pa.Array, **columns: object) -> None:
        given: dict[str, object] = {"hash": pa.array(hashes), "key": keys, **columns}
        arrays = []
        for item in FOUND_SCHEMA:
            value = given.get(item.name)
            if value is None:
                value = pa.nulls(len(keys), item.type)
            elif isinstance(value, int | str):
                value = pa.repeat(pa.scalar(value, item.type), len(keys))
            elif not isinstance(value, pa.Array):
                value = pa.array(value, item.type)
            arrays.append(value)
        self.pieces.append(pa.RecordBatch.from_arrays(arrays, schema=FOUND_SCHEMA))


def _lists(values: Sequence[pa.Array], chosen: Mask) -> pa.Array:
    """The chosen values of each row."""
    at, places = np.nonzero(chosen)
    if not values:
        return _as_lists(pa.array([], pa.string()), chosen)
    # one long column of all columns, then the chosen ones row by row
    long = pa.concat_arrays(list(values)).take(pa.array(places * len(chosen) + at))
    return _as_lists(long, chosen)


def _as_lists(values: pa.Array, chosen: Mask) -> pa.Array:
    offsets = np.zeros(len(chosen) + 1, np.int32)
    np.cumsum(chosen.sum(axis=1), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)

"""Collects the differences that a comparison finds: changes, and rejected or repeated rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.key_changes import key_change_columns
from publisher.formats.columns.record_batches import as_json, batch_of
from publisher.formats.columns.row_images import Matrix, non_null
from publisher.formats.triggerless.hashing import Hashes
from publisher.formats.triggerless.multi_values import list_changed_values, split_values
from publisher.model.change import EventType, Outcome, Reason
from publisher.model.packed_batches import concat

Places = npt.NDArray[np.int64]

DIFFERENCE_SCHEMA = pa.schema(
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
"""One row for each change and each rejected or repeated row; ``outcome`` and the following columns are
those of ``RECORD_SCHEMA``."""


_SEVERAL_ROWS = "several different rows have this key: set key columns that identify a row"
_SEVERAL_VALUES = (
    "the rows of this key have different values in a single-valued column: begin the column's name with mv_,"
    " or change the view"
)


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table with the hashes of their keys."""

    hashes: Hashes
    keys: pa.Array
    values: Sequence[pa.Array]
    """Text of each compared column."""

    def __len__(self) -> int:
        return len(self.hashes)

    @classmethod
    def concat(cls, parts: Sequence[TableRows]) -> TableRows:
        """Joins rows in their order; returns a single part without copying it."""
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.values for part in parts), strict=True)
        return cls(
            np.concatenate([part.hashes for part in parts]),
            pa.concat_arrays([part.keys for part in parts]),
            [pa.concat_arrays(column) for column in columns],
        )

    @classmethod
    def of_batches(cls, batches: Sequence[pa.RecordBatch], columns: int) -> TableRows:
        """Restores the rows of ``to_batch``."""
        if not batches:
            empty = pa.array([], pa.string())
            return cls(np.zeros(0, np.uint64), empty, [empty] * columns)
        rows = concat(batches)
        return cls(rows["hash"].to_numpy(), rows["key"], rows.columns[2 : 2 + columns])

    def to_batch(self) -> pa.RecordBatch:
        """Returns the rows as a batch."""
        names = ["hash", "key", *map(str, range(len(self.values)))]
        columns = [pa.array(self.hashes), self.keys, *self.values]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def take(self, places: Places) -> TableRows:
        """The rows at these places."""
        which = pa.array(places)
        return TableRows(
            self.hashes[places], self.keys.take(which), [v.take(which) for v in self.values]
        )


@dataclass(slots=True)
class Differences:
    """Collects the differences of a table."""

    columns: Sequence[str]
    """Names of the compared columns."""
    multiple: Collection[str] = ()
    """Names of those with any number of values, see ``multi_values``."""
    is_view: bool = False
    pieces: list[pa.RecordBatch] = field(default_factory=list)

    def add_new(self, rows: TableRows, *, replace: bool) -> None:
        """Adds rows that were unknown, as inserts or as updates that replace all values."""
        if not len(rows):
            return
        chosen = np.ones((len(rows), len(self.columns)), bool)
        if not replace:  # an insert has no attributes for NULL
            chosen = non_null(rows.values, len(rows))
        event = EventType.REPLACE_FIELD if replace else EventType.INSERT_FIELD
        self._add_values(event, rows, chosen, None)

    def add_changed(self, rows: TableRows, chosen: Matrix, old: Sequence[pa.Array] | None) -> None:
        """Adds rows whose chosen columns have changed; ``old`` has the old values by column."""
        if not len(rows):
            return
        event = EventType.REPLACE_FIELD if old is None else EventType.UPDATE_FIELD
        self._add_values(event, rows, chosen, old)

    def add_deleted(self, hashes: Hashes, keys: pa.Array) -> None:
        """Adds rows that were deleted."""
        if len(keys):
            self._add(
                hashes,
                keys,
                event_type=EventType.DELETE_ROW.value,
                columns=pa.array([[]] * len(keys), pa.list_(pa.string())),
            )

    def add_key_changes(self, hashes: Hashes, old: pa.Array, new: pa.Array) -> None:
        """Adds objects whose key has changed."""
        changes = key_change_columns(old.to_pylist(), new.to_pylist())
        self._add(hashes, old, **changes)

    def add_duplicates(self, rows: TableRows) -> None:
        """Adds exact repetitions of rows as ignored."""
        self._add(
            rows.hashes,
            rows.keys,
            outcome=Outcome.IGNORED.value,
            reason=str(Reason.DUPLICATE),
        )

    def add_conflicting(self, rows: TableRows) -> None:
        """Adds different rows with the same key as rejected."""
        self._add(
            rows.hashes,
            rows.keys,
            outcome=Outcome.REJECTED.value,
            reason=str(Reason.SEVERAL_VALUES if self.is_view else Reason.DOUBLE_RECORD),
            detail=_SEVERAL_VALUES if self.is_view else _SEVERAL_ROWS,
            raw=[as_json(self.record(rows, row)) for row in range(len(rows))],
        )

    def record(self, rows: TableRows, row: int) -> dict[str, object]:
        """A row as a dictionary by column names."""
        columns = zip(self.columns, rows.values, strict=True)
        return {"key": rows.keys[row].as_py()} | {
            name: (split_values(v.slice(row, 1)) if name in self.multiple else v.slice(row, 1))[
                0
            ].as_py()
            for name, v in columns
        }

    def to_batch(self) -> pa.RecordBatch:
        """Returns all differences in order of hash and key."""
        if not self.pieces:
            return pa.RecordBatch.from_pylist([], schema=DIFFERENCE_SCHEMA)
        all_differences = pa.concat_batches(self.pieces)
        order = ("hash", "key", "event_type", "raw")
        return all_differences.take(
            pc.sort_indices(all_differences, [(name, "ascending") for name in order])
        )

    def _add_values(
        self, event: EventType, rows: TableRows, chosen: Matrix, old: Sequence[pa.Array] | None
    ) -> None:
        values = list_changed_values(self.columns, chosen, rows.values, old, self.multiple)
        self._add(rows.hashes, rows.keys, event_type=event.value, **values._asdict())

    def _add(self, hashes: Hashes, keys: pa.Array, **columns: object) -> None:
        self.pieces.append(
            batch_of(DIFFERENCE_SCHEMA, len(keys), hash=pa.array(hashes), key=keys, **columns)
        )

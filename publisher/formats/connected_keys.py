"""Keys that changes of keys connect: all records of an object that has several keys have one lane.

No task that reads a split knows all changes of keys.  So a survey finds them before the run, and stores
them in a folder that all tasks see.  Tasks load what they need: readers the lanes of keys, planners the
changes of their lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.model.change import Change, EventType, Object
from publisher.model.change_batches import changes_of, objects_of
from publisher.model.key_changes import KeyHistory, PlaceOf, object_after
from publisher.model.lanes import lane_of
from publisher.model.record_schema import RECORD_SCHEMA

_LANE = RECORD_SCHEMA.get_field_index("lane")
_LANES = pa.schema(
    [("schema", pa.string()), ("table", pa.string()), ("key", pa.string()), ("lane", pa.int32())]
)


@dataclass(frozen=True, slots=True)
class ConnectedKeys:
    """The stored changes of keys of one source."""

    folder: Path

    @classmethod
    def write(
        cls,
        folder: Path,
        surveys: Sequence[pa.Table],
        lanes: int,
        place_of: PlaceOf,
    ) -> ConnectedKeys:
        """Stores the changes of keys of all splits, and the lanes of their keys."""
        changes = pa.concat_tables([RECORD_SCHEMA.empty_table(), *surveys])
        groups = KeyHistory(_changes(changes), place_of).groups()
        objects = [
            (schema, table, key, lane_of(schema, table, first, lanes))
            for (schema, table), keys in groups.tables.items()
            for key, first in keys.items()
        ]
        of_keys = pa.Table.from_pylist(
            [dict(zip(_LANES.names, entry, strict=True)) for entry in objects], _LANES
        )
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        keys = cls(folder)
        keys._write(keys._lanes_file, of_keys)
        keys._write(keys._changes_file, changes)
        return keys

    def history(
        self, lane: int, place_of: PlaceOf, mask: Callable[[Change], Change] | None = None
    ) -> KeyHistory:
        """Reads the changes of keys of the objects in a lane, and masks them."""
        lanes = _by_object(self._read(self._lanes_file))
        all_changes = _changes(self._read(self._changes_file))
        changes = [change for change in all_changes if lanes[change.object] == lane]
        return KeyHistory(changes if mask is None else map(mask, changes), place_of)

    def with_lanes(self, records: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields records, those of connected keys in the lane of their object.

        Raises ``FatalError`` for a change of a key that the survey has not found."""
        lanes = _by_object(self._read(self._lanes_file))
        keys = pa.array([obj.key for obj in lanes], pa.string())
        for batch in records:
            for change in _changes(batch.filter(_are_key_changes(batch))):
                _check_survey(change, lanes)
            yield _in_lanes(batch, lanes, pc.is_in(batch["key"], keys)) if lanes else batch

    @property
    def _changes_file(self) -> Path:
        return self.folder / "changes.arrow"

    @property
    def _lanes_file(self) -> Path:
        return self.folder / "lanes.arrow"

    def _write(self, file: Path, table: pa.Table) -> None:
        with pa.ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table)

    def _read(self, file: Path) -> pa.Table:
        with pa.memory_map(str(file)) as source:
            return pa.ipc.open_file(source).read_all()


@dataclass(frozen=True, slots=True)
class KeySurvey:
    """The changes of keys in a split, and its greatest record id."""

    changes: pa.Table
    last: int


def survey_records(records: Iterable[pa.RecordBatch]) -> KeySurvey:
    """Finds the changes of keys among the records of a split."""
    found: list[pa.RecordBatch] = []
    last = 0
    for batch in records:
        changes = batch.filter(_are_key_changes(batch))
        found += [changes] if changes.num_rows else []
        usable = batch.filter(pc.equal(batch["part"], ""))
        last = max(last, pc.max(usable["high"]).as_py() or 0)
    return KeySurvey(pa.Table.from_batches(found, RECORD_SCHEMA), last)


def _are_key_changes(batch: pa.RecordBatch) -> pa.Array:
    return pc.and_(
        pc.fill_null(pc.equal(batch["event_type"], int(EventType.KEY_CHANGE)), False),
        batch["outcome"].is_null(),
    )


def _check_survey(change: Change, lanes: dict[Object, int]) -> None:
    new = object_after(change)
    if lanes.get(change.object, -1) != lanes.get(new, -2):
        raise FatalError(
            f"record {change.position.text()} changes a key of {change.object.table}, which the survey "
            "of the input has not found: the input has changed since then; start again"
        )


def _by_object(table: pa.Table) -> dict[Object, int]:
    names = ("schema", "table", "key")
    objects = map(Object._make, zip(*(table[name].to_pylist() for name in names), strict=True))
    return dict(zip(objects, table["lane"].to_pylist(), strict=True))


def _in_lanes(
    batch: pa.RecordBatch, lanes: dict[Object, int], may_be_connected: pa.Array
) -> pa.RecordBatch:
    """Replaces the lanes of records with connected keys."""
    rows = np.flatnonzero(may_be_connected.to_numpy(zero_copy_only=False))
    if not len(rows):
        return batch
    numbers = batch["lane"].to_numpy().copy()
    objects = objects_of(batch.take(pa.array(rows)))
    for row, obj in zip(rows.tolist(), objects, strict=True):
        numbers[row] = lanes.get(obj, numbers[row])
    return batch.set_column(_LANE, RECORD_SCHEMA.field(_LANE), pa.array(numbers, pa.int32()))


def _changes(table: pa.Table | pa.RecordBatch) -> list[Change]:
    batches = table.to_batches() if isinstance(table, pa.Table) else [table]
    return [change for batch in batches for change in changes_of(batch, range(batch.num_rows))]

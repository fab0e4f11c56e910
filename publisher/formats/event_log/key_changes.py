"""Finds updates of key columns (types 2 and 3) in a frame of an event log, and makes them changes of keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.object_names import RecordFault, TargetTable
from publisher.formats.columns.record_batches import Codes, Mask
from publisher.formats.event_log.decode import EventRows
from publisher.formats.event_log.options import KeyChangePolicy
from publisher.formats.event_log.resolve import EventColumns, EventObjects
from publisher.model.change import EventType, Reason
from publisher.model.keys import KeyPart, KeyProblem, format_key, parse, quote
from publisher.model.names import find_name
from publisher.model.sorted_ids import sort_distinct


class EventKeyChanges:
    """Resolves the updates of key columns in the rows of a frame, as the setting ``key_change`` says."""

    def __init__(
        self,
        rows: EventRows,
        objects: EventObjects,
        columns: EventColumns,
        policy: KeyChangePolicy,
    ) -> None:
        self._rows = rows
        self._objects = objects
        self._columns = columns
        self._policy = policy
        self.types = columns.types
        """Type of each row, ``KEY_CHANGE`` for changes of keys."""
        self.names = columns.names
        self.row_reads = columns.row_reads
        self.logged = columns.logged
        self.children = columns.children
        self.old = columns.old
        self.new = columns.new

    def resolve(self) -> None:
        """Finds the changes of keys; rejects them by policy, and those that contradict their key."""
        if self._policy == "attribute":
            return
        faults: dict[int, RecordFault] = {}
        values: dict[int, tuple[str, str]] = {}
        for row in self._candidates():
            found = self._change_of(row)
            if isinstance(found, RecordFault):
                faults[row] = found
            elif found is not None:
                values[row] = found
        torn = {int(self._objects.codes[row]): row for row in faults}
        for row in [row for row in values if int(self._objects.codes[row]) in torn]:
            del values[row]  # perhaps another column of the same update
            faults[row] = _fault(
                f"record {self._rows.ids[torn[int(self._objects.codes[row])]]} changes another column of "
                "the same key and is rejected: fix that record"
            )
        if values:
            self._take(values)
        if faults:
            for row in faults:
                self._rows.objects[row] = self._objects.of(row)
            self._rows.reject(np.isin(self._rows.live, list(faults)), lambda row: faults[row])

    def _take(self, values: dict[int, tuple[str, str]]) -> None:
        mask = np.zeros(len(self.types), bool)
        mask[list(values)] = True
        rows = sorted(values)
        self.types = np.where(mask, np.int64(EventType.KEY_CHANGE), self.types)
        old, new = (pa.array([values[row][side] for row in rows], pa.string()) for side in (0, 1))
        self.old = pc.replace_with_mask(self.old, pa.array(mask), old)
        self.new = pc.replace_with_mask(self.new, pa.array(mask), new)

    def _candidates(self) -> Iterator[int]:
        """Yields the rows that update a column of their key, and perhaps further rows."""
        live = self._rows.live
        live = live[np.isin(self.types[live], (2, 3))]
        if not len(live):
            return
        names = self._columns.names.take(pa.array(live)).dictionary_encode()
        name_codes = names.indices.to_numpy(zero_copy_only=False)
        tables = self._objects.tables[live]
        for code, name in enumerate(names.dictionary.to_pylist()):
            named = name_codes == code
            for table in sort_distinct(tables[named]).tolist():
                of_table = live[named & (tables == table)]
                yield from of_table[self._may_be_in_key(table, name, of_table)].tolist()

    def _may_be_in_key(self, table: int, name: str, rows: Codes) -> Mask:
        """Marks the rows, all of one table, whose key may have the column; none is missed."""
        known = self._objects.target(table).key_columns
        if known:
            return np.full(len(rows), name.casefold() in known)
        codes, places = np.unique(self._objects.codes[rows], return_inverse=True)
        keys = pc.utf8_lower(self._objects.keys.take(pa.array(codes)))
        has_name = pc.match_substring(keys, f"{quote(name.lower())}=")
        return np.asarray(has_name.to_numpy(zero_copy_only=False), bool)[places]

    def _change_of(self, row: int) -> tuple[str, str] | RecordFault | None:
        """The old and the new value of the key column; ``None`` if the row changes no key."""
        target, key = self._objects.of(row)
        parts = {part.column: part.value for part in parse(key.text)}
        column = find_name(self._columns.names[row].as_py(), parts)
        if column is None:
            return None
        try:
            old = parts[column]
            if self.types[row] == EventType.UPDATE_FIELD:
                old = _canonical(target, column, self._columns.old[row].as_py())
            new = _canonical(target, column, self._columns.new[row].as_py())
        except KeyProblem as problem:
            return _fault(f"column {column} is part of the key: {problem.message}")
        if old == new:
            return None
        if old != parts[column]:
            return _fault(
                f"old_value {old!r} is not the value of {column} in the key {key.text}; "
                "log changes of a key under the old key"
            )
        changed = format_key(sorted((parts | {column: new}).items()))
        if self._policy == "reject":
            return _fault(
                f"the key {key.text} becomes {changed}; log no updates of key columns, or set "
                'key_change = "modify-association"'
            )
        return old, new


def _fault(detail: str) -> RecordFault:
    return RecordFault(Reason.KEY_CHANGE, detail)


def _canonical(target: TargetTable, column: str, value: str | None) -> str:
    """The value as a canonical key has it.  Raises ``KeyProblem``."""
    if value is None:
        raise KeyProblem("its old and new values cannot be NULL; fix the trigger")
    known = target.known
    if known is not None and known.column(column) in known.padded:
        value = value.rstrip(" ")
    return parse(target.form.canonical([KeyPart(column, value)]))[0].value

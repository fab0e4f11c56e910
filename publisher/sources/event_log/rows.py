"""The rows of a frame of an event log on their way to records: objects, columns, values.

Each distinct table, key and column of a frame is looked at once, whatever the number of its rows.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Reason
from publisher.sources.columns.object_names import Column, Fault, Key, Names, Target
from publisher.sources.columns.record_batches import Codes, Mask, Place
from publisher.sources.files.frame import Frame

FaultOf = Callable[[int], Fault]
"""The fault of a row, by its number in the frame."""


@dataclass(slots=True)
class Rows:
    """The rows of a frame on their way; ``live`` are the numbers of those without fault so far."""

    frame: Frame
    place: Place
    text: dict[str, pa.Array]
    readable: dict[str, Mask]
    """Which values of the columns of ``text`` are text at all."""
    ids: Codes
    has_id: Mask
    live: Codes
    faults: dict[int, Fault] = field(default_factory=dict)
    objects: dict[int, tuple[Target, Key]] = field(default_factory=dict)
    """Table and key of those rows with a fault that have them."""
    fingerprints: Codes | None = None
    """Of each row, where it is to be acknowledged."""

    def fault(self, wrong: Mask, fault: FaultOf | Fault) -> None:
        """Reject the live rows that ``wrong`` marks."""
        if not wrong.any():
            return
        for row in self.live[wrong].tolist():
            self.faults[row] = fault if isinstance(fault, Fault) else fault(row)
        self.live = self.live[~wrong]

    def value(self, name: str, row: int) -> object:
        """What a row holds in a column, as it was read."""
        return self.frame.batch.column(name)[row].as_py()


def _encoded(array: pa.Array) -> tuple[Codes, list[str]]:
    """Codes of the values, and the distinct values; null is as the empty text."""
    encoded = pc.dictionary_encode(array.fill_null(""))
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


class Objects:
    """Table and key of each row of a frame, each distinct pair looked at once."""

    def __init__(self, names: Names, rows: Rows) -> None:
        self._names = names
        self._rows = rows
        self.tables, self._table_names = _encoded(rows.text["table_name"])
        """Code of the table of each row."""
        self.targets = [names.target(name) for name in self._table_names]
        """By code of the table."""
        self.codes: Codes = np.full(len(self.tables), -1)
        """Code of the object of each row."""
        self.keys: list[Key] = []
        """By code of the object."""

    def resolve(self) -> None:
        """Find the key of each live row; reject the rows whose object is not understood."""
        rows, targets = self._rows, self.targets
        wrong = [code for code, target in enumerate(targets) if isinstance(target, Fault)]
        if wrong:
            unknown = np.isin(self.tables[rows.live], wrong)
            rows.fault(unknown, lambda row: targets[self.tables[row]])
        codes, key_texts = _encoded(rows.text["table_key"])
        size = len(key_texts)
        pairs = pa.array(self.tables[rows.live] * size + codes[rows.live]).dictionary_encode()
        self.codes[rows.live] = pairs.indices.to_numpy()
        find, faults = self._names.key, {}
        for code, pair in enumerate(pairs.dictionary.to_pylist()):
            found = find(targets[pair // size], key_texts[pair % size])
            if isinstance(found, Fault):
                faults[code] = found
                found = Key("", 0)
            self.keys.append(found)
        if faults:
            wrong_keys = np.isin(self.codes[rows.live], list(faults))
            rows.fault(wrong_keys, lambda row: faults[int(self.codes[row])])

    def target(self, table: int) -> Target:
        """The table with this code, which is known to be one."""
        target = self.targets[table]
        assert isinstance(target, Target)
        return target

    def column(self, table: int, column: str) -> Column | Fault:
        """The column that a record of the table with this code names."""
        return self._names.column(self._table_names[table], self.target(table), column)

    def of(self, row: int) -> tuple[Target, Key]:
        """Table and key of a row that has them."""
        return self.target(int(self.tables[row])), self.keys[self.codes[row]]


class Columns:
    """Column name and values of the rows of per-field types."""

    def __init__(self, rows: Rows, objects: Objects, types: Codes) -> None:
        self._rows = rows
        self._objects = objects
        self._types = types
        self.names: pa.Array = pa.nulls(len(types), pa.string())
        self.old = rows.text["old_value"]
        self.new = rows.text["new_value"]

    def resolve(self) -> None:
        """Fill ``names``; reject rows whose column is not known or whose binary value is not right."""
        rows, objects = self._rows, self._objects
        columns, column_texts = _encoded(rows.text["column_name"])
        pairs = objects.tables * len(column_texts) + columns
        per_field = np.isin(self._types, (1, 2, 3, 7, 8))
        spelled: dict[int, str] = {}
        octets: list[int] = []
        faults: dict[int, Fault] = {}
        for pair in np.unique(pairs[rows.live][per_field[rows.live]]).tolist():
            table, column = divmod(pair, len(column_texts))
            found = objects.column(table, column_texts[column])
            if isinstance(found, Fault):
                faults[pair] = found
                continue
            spelled[pair] = found.name
            if found.octet:
                octets.append(pair)
        if faults:
            wrong = (np.isin(pairs, list(faults)) & per_field)[rows.live]
            self._reject(wrong, lambda row: faults[int(pairs[row])])
        order = {pair: i for i, pair in enumerate(spelled)}
        places = _mapped(pairs, order)
        self.names = pa.array(list(spelled.values()), pa.string()).take(
            pa.array(places, mask=places < 0)
        )
        if octets:
            self._decode(np.isin(pairs, octets))

    def _reject(self, wrong: Mask, make: FaultOf) -> None:
        for row in self._rows.live[wrong].tolist():
            self._rows.objects[row] = self._objects.of(row)
        self._rows.fault(wrong, make)

    def _decode(self, octet: Mask) -> None:
        live = np.zeros(len(octet), bool)
        live[self._rows.live] = True
        self.old, bad_old = _base64(self.old, octet & live & (self._types == 2))
        self.new, bad_new = _base64(self.new, octet & live & (self._types <= 3))
        self._reject(
            (bad_old | bad_new)[self._rows.live],
            lambda row: Fault(
                Reason.VALUE,
                f"{'old' if bad_old[row] else 'new'}_value is no Base64 for the binary column"
                f" {self.names[row].as_py()}; mend the trigger or the column's kind",
            ),
        )


def _mapped(values: Codes, order: dict[int, int]) -> Codes:
    """``order`` of each value, -1 for values that have none."""
    places = np.full(len(values), -1)
    if order:
        known = np.fromiter(order, np.int64, len(order))
        ranks = np.argsort(known)
        at = np.minimum(np.searchsorted(known[ranks], values), len(known) - 1)
        hit = known[ranks][at] == values
        places[hit] = ranks[at][hit]
    return places


_PLAIN_BASE64 = r"\A(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"
"""Base64 without white space, of the right length; in RE2's syntax."""


def _base64(array: pa.Array, rows: Mask) -> tuple[pa.Array, Mask]:
    """The values with white space taken out of the Base64 of ``rows``, and which are no Base64.

    Some databases break Base64 into lines.
    """
    bad = np.zeros(len(array), bool)
    changed: dict[int, str] = {}
    doubtful = pc.invert(pc.fill_null(pc.match_substring_regex(array, _PLAIN_BASE64), True))
    for row in np.flatnonzero(rows & doubtful.to_numpy(zero_copy_only=False)).tolist():
        value = array[row].as_py()
        if value is None:
            continue
        plain = "".join(value.split())
        try:
            base64.b64decode(plain.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            bad[row] = True
        else:
            if plain != value:
                changed[row] = plain
    if changed:
        mask = np.zeros(len(array), bool)
        mask[list(changed)] = True
        array = pc.replace_with_mask(array, pa.array(mask), pa.array(changed.values(), pa.string()))
    return array, bad

"""Resolves the objects, columns and values of decoded rows of an event log.

Each distinct table, key and column of a frame is resolved once, whatever the number of its rows.
"""

from __future__ import annotations

import base64
import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.object_names import (
    Key,
    NamedColumn,
    Names,
    RecordFault,
    TargetTable,
)
from publisher.formats.columns.record_batches import Codes, Mask
from publisher.formats.event_log.decode import EventRows, MakeFault
from publisher.model.change import Reason
from publisher.model.classes import ChildRowEvents
from publisher.model.keys import BLANKS
from publisher.model.names import equal_in_any_case
from publisher.model.sorted_ids import sort_distinct


def _encode(array: pa.Array) -> tuple[Codes, pa.Array]:
    """Encodes texts as codes of distinct values; null counts as the empty text."""
    dictionary = pc.dictionary_encode(array.fill_null(""))
    codes = dictionary.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, dictionary.dictionary


class EventObjects:
    """Resolves table and key of each row of a frame, each distinct pair once."""

    def __init__(self, names: Names, rows: EventRows) -> None:
        self._names = names
        self._rows = rows
        self.tables, table_names = _encode(rows.text["table_name"])
        """Code of the table of each row."""
        self._table_names: list[str] = table_names.to_pylist()
        self.targets = [names.target(name) for name in self._table_names]
        """The resolved tables, by code."""
        self.codes: Codes = np.full(len(self.tables), -1)
        """Code of the object of each row."""
        self.keys = pa.array([], pa.string())
        """The canonical keys of the objects, by code."""
        self.lanes: Codes = np.zeros(0, np.int64)
        """The lanes of the objects, by code."""

    def resolve(self) -> None:
        """Finds the key of each live row; rejects the rows whose object cannot be resolved."""
        rows, targets = self._rows, self.targets
        wrong = [code for code, target in enumerate(targets) if isinstance(target, RecordFault)]
        if wrong:
            unknown = np.isin(self.tables[rows.live], wrong)
            rows.reject(unknown, lambda row: targets[self.tables[row]])
        codes, key_texts = _encode(rows.text["table_key"])
        size = len(key_texts)
        pairs = pa.array(self.tables[rows.live] * size + codes[rows.live]).dictionary_encode()
        self.codes[rows.live] = pairs.indices.to_numpy()
        tables, keys = np.divmod(pairs.dictionary.to_numpy(), size)
        faults = self._resolve_keys(tables, key_texts.take(pa.array(keys)))
        if faults:
            wrong_keys = np.isin(self.codes[rows.live], list(faults))
            rows.reject(wrong_keys, lambda row: faults[int(self.codes[row])])

    def _resolve_keys(self, tables: Codes, texts: pa.Array) -> dict[int, RecordFault]:
        """Fills ``keys`` and ``lanes`` of objects from their tables and key texts; returns faults by code."""
        self.keys, self.lanes = texts, np.zeros(len(texts), np.int64)
        faults: dict[int, RecordFault] = {}
        for table in sort_distinct(tables).tolist():
            of_table = tables == table
            codes = np.flatnonzero(of_table)
            keys = self._names.keys(self.target(table), texts.filter(pa.array(of_table)))
            self.keys = pc.replace_with_mask(self.keys, of_table, keys.texts)
            self.lanes[codes] = keys.lanes
            faults |= {int(codes[place]): fault for place, fault in keys.faults.items()}
        return faults

    def target(self, table: int) -> TargetTable:
        """Returns the resolved table with this code."""
        target = self.targets[table]
        assert isinstance(target, TargetTable)
        return target

    def column(self, table: int, column: str) -> NamedColumn | RecordFault:
        """Resolves a column name in the table with this code."""
        return self._names.column(self._table_names[table], self.target(table), column)

    def child_attributes(self, table: int) -> list[str]:
        """Returns the attributes of the child table with this code."""
        return self._names.child_attributes(self.target(table))

    def of(self, row: int) -> tuple[TargetTable, Key]:
        """Returns table and key of a row whose object is resolved."""
        code = self.codes[row]
        return self.target(int(self.tables[row])), Key(
            self.keys[code].as_py(), int(self.lanes[code])
        )

    def child_names(self) -> pa.Array | None:
        """Names of child tables in the log by the code of the table; ``None`` if the log names none."""
        children = [getattr(target, "child", None) for target in self.targets]
        names = [n if child else None for n, child in zip(self._table_names, children, strict=True)]
        return _if_any(pa.array(names, pa.string()))

    def view_flags(self) -> pa.Array | None:
        """Marks views by the code of the table, null for tables; ``None`` if the log names no view."""
        views = [getattr(target, "is_view", None) or None for target in self.targets]
        return _if_any(pa.array(views, pa.bool_()))


def _if_any(values: pa.Array) -> pa.Array | None:
    return None if values.null_count == len(values) else values


class EventColumns:
    """Resolves column names and values of the rows of per-field types."""

    def __init__(self, rows: EventRows, objects: EventObjects) -> None:
        self._rows = rows
        self._objects = objects
        self.types = rows.types
        """Event types; events of rows of child tables may become field query-backs."""
        self.names: pa.Array = pa.nulls(len(rows.types), pa.string())
        self.logged: pa.Array | None = None
        """Names of columns in the log where they differ from ``names``; ``None`` if none does."""
        self.children: pa.Array | None = None
        """Child tables of the columns; ``None`` if no column belongs to one."""
        self.row_reads: list[tuple[Mask, list[str]]] = []
        """Events of rows of child tables with several attributes, which are all read."""
        self.old = rows.text["old_value"]
        self.new = rows.text["new_value"]

    def resolve(self) -> None:
        """Fills ``names``; rejects rows with an unknown column or an invalid binary value."""
        rows, objects = self._rows, self._objects
        columns, names = _encode(rows.text["column_name"])
        column_texts: list[str] = names.to_pylist()
        pairs = objects.tables * len(column_texts) + columns
        per_field = np.isin(self.types, (1, 2, 3, 7, 8))
        named: dict[int, NamedColumn] = {}
        faults: dict[int, RecordFault] = {}
        for pair in np.unique(pairs[rows.live][per_field[rows.live]]).tolist():
            table, code = divmod(pair, len(column_texts))
            column = objects.column(table, column_texts[code])
            if isinstance(column, RecordFault):
                faults[pair] = column
            else:
                named[pair] = column
        if faults:
            wrong = (np.isin(pairs, list(faults)) & per_field)[rows.live]
            self._reject(wrong, lambda row: faults[int(pairs[row])])
        order = {pair: i for i, pair in enumerate(named)}
        ranks = _ranks_of(pairs, order)
        places = pa.array(ranks, mask=(ranks < 0) | ~per_field)
        self.names = pa.array([c.name for c in named.values()], pa.string()).take(places)
        children = pa.array([column.child for column in named.values()], pa.string())
        self.children = _if_any(children.take(places))
        logged = [_other_name(column_texts[p % len(column_texts)], c) for p, c in named.items()]
        self.logged = _if_any(pa.array(logged, pa.string()).take(places))
        octets = [pair for pair, column in named.items() if column.octet]
        if octets:
            self._decode(np.isin(pairs, octets))

    def resolve_row_events(self, handling: ChildRowEvents) -> None:
        """Rejects events of whole rows of child tables, or reads the current values of their attributes."""
        objects, types = self._objects, self.types
        for code, target in enumerate(objects.targets):
            if not isinstance(target, TargetTable) or target.child is None:
                continue
            affected = (objects.tables == code) & np.isin(types, (4, 5, 6))
            attributes = objects.child_attributes(code) if handling == "read" else []
            if attributes and affected.any():
                self.types = np.where(affected, 8, self.types)
                self.names = pc.replace_with_mask(self.names, affected, attributes[0])
                children = (
                    pa.nulls(len(affected), pa.string()) if self.children is None else self.children
                )
                self.children = pc.replace_with_mask(children, affected, target.child)
                if len(attributes) > 1:
                    self.row_reads.append((affected, attributes))
            elif not attributes:
                self._reject(affected[self._rows.live], _child_row_fault(target.child))

    def _reject(self, wrong: Mask, fault: MakeFault | RecordFault) -> None:
        for row in self._rows.live[wrong].tolist():
            self._rows.objects[row] = self._objects.of(row)
        self._rows.reject(wrong, fault)

    def _decode(self, octet: Mask) -> None:
        live = np.zeros(len(octet), bool)
        live[self._rows.live] = True
        self.old, bad_old = _base64(self.old, octet & live & (self.types == 2))
        self.new, bad_new = _base64(self.new, octet & live & (self.types <= 3))
        self._reject(
            (bad_old | bad_new)[self._rows.live],
            lambda row: RecordFault(
                Reason.VALUE,
                f"{'old' if bad_old[row] else 'new'}_value is not Base64 for the binary column"
                f" {self.names[row].as_py()}; fix the trigger, or the column's type in [tables]",
            ),
        )


def _other_name(logged: str, column: NamedColumn) -> str | None:
    """Returns the name of a column in the log, unless it is only another spelling of its name."""
    name = logged.rstrip(" ")
    return None if equal_in_any_case(name, column.name.rstrip(" ")) else name


def _child_row_fault(child: str) -> RecordFault:
    return RecordFault(
        Reason.CHILD_ROW,
        f"the event concerns a whole row of the child table {child}: log events of its columns, or "
        'set child_row_events = "read"',
    )


def _ranks_of(values: Codes, order: dict[int, int]) -> Codes:
    """Looks up the rank of each value in ``order``; -1 for values that are not in it."""
    places = np.full(len(values), -1)
    if order:
        known = np.fromiter(order, np.int64, len(order))
        ranks = np.argsort(known)
        nearest = np.minimum(np.searchsorted(known[ranks], values), len(known) - 1)
        is_known = known[ranks][nearest] == values
        places[is_known] = ranks[nearest][is_known]
    return places


_DROP_BLANKS = dict.fromkeys(map(ord, BLANKS))
_PLAIN_BASE64 = r"\A(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"
"""Base64 without white space, of the right length; in RE2's syntax."""


def _base64(array: pa.Array, rows: Mask) -> tuple[pa.Array, Mask]:
    """Removes white space from the Base64 of ``rows``, and marks values that are not Base64.

    Some databases write Base64 in lines.
    """
    bad = np.zeros(len(array), bool)
    changed: dict[int, str] = {}
    places = np.flatnonzero(rows)
    plain_flags = pc.match_substring_regex(array.take(pa.array(places)), _PLAIN_BASE64)
    doubtful = ~pc.fill_null(plain_flags, True).to_numpy(zero_copy_only=False)
    for row in places[doubtful].tolist():
        value = array[row].as_py()
        plain = value.translate(_DROP_BLANKS)
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

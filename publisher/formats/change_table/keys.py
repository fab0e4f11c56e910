"""The primary key of a change table, and the object keys of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.formats.change_table.change_seq import Flags, Integers
from publisher.formats.change_table.data_columns import DataColumns, link_of, value_columns
from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.rows import ChangeRows
from publisher.formats.columns.key_lanes import key_lanes
from publisher.formats.columns.key_texts import join_key, quote_values
from publisher.formats.columns.object_names import Names, RecordFault, TargetTable
from publisher.model.catalogue import Catalogue
from publisher.model.change import Reason

_CANONICAL_INTEGER = r"\A(?:-?[1-9][0-9]*|0)\z"
"""An integer as ``keys.integer_text`` writes it."""


def catalogue_key(
    layout: ChangeTableLayout, catalogue: Catalogue | None, options: ChangeTableOptions
) -> tuple[str, ...]:
    """The primary key of the table in a database or ``[tables]``; empty if neither names it."""
    if catalogue is None:
        return ()
    target = Names(catalogue, options.schema, options.identifier_case, 1).target(layout.table)
    if isinstance(target, RecordFault) or target.known is None or target.child is not None:
        return ()
    return target.known.key


def key_bits(
    layout: ChangeTableLayout, options: ChangeTableOptions, catalogue: Catalogue | None
) -> int:
    """The primary key as bits by data column; 0 if it is unknown, or DELETE masks show another index."""
    if not options.key_from_deletes:
        return 0
    key = layout.key or options.key or catalogue_key(layout, catalogue, options)
    wanted = {name.casefold() for name in key}
    places = [place for place, name in enumerate(layout.data) if name.casefold() in wanted]
    return sum(1 << place for place in places) if len(places) == len(wanted) else 0


def key_of(
    layout: ChangeTableLayout,
    mask_key: Sequence[str],
    target: TargetTable,
    options: ChangeTableOptions,
    where: str,
) -> tuple[str, ...]:
    """The primary key according to ``.dfm``, database, masks of DELETE records, or settings, in this order.

    ``mask_key`` are the key columns that the masks show.  For a child table the columns that hold the key
    of its parent.

    Raises:
        FatalError: Two of these keys differ, or there is none.
    """
    if target.child is not None:
        return _spelled_link(target, layout, where)
    database_key = target.known.key if target.known else ()
    candidates = {
        "the .dfm": layout.key,
        "the database or [tables]": database_key,
        "masks of DELETE records": tuple(mask_key) if options.key_from_deletes else (),
        "the setting key": options.key,
    }
    keys = {who: _spell(key, who, layout, where) for who, key in candidates.items() if key}
    if not keys:
        raise FatalError(
            f"{where}: the primary key of its table is not known: no .dfm, no database and no DELETE with"
            " a mask names it; set key"
        )
    (first, key), *others = keys.items()
    for who, other in others:
        if set(other) != set(key):
            raise FatalError(
                f"{where}: the key is {', '.join(key)} according to {first}, but {', '.join(other)} according"
                f" to {who}; fix one of them (key_from_deletes = false if DELETE records show a unique index)"
            )
    return key


def _spell(
    key: tuple[str, ...], who: str, layout: ChangeTableLayout, where: str
) -> tuple[str, ...]:
    """Spells key columns as the change table does."""
    spelled = {name.casefold(): name for name in layout.data}
    absent = [name for name in key if name.casefold() not in spelled]
    if absent:
        raise FatalError(
            f"{where}: {who} has the key column {absent[0]}, but the change table has no such column;"
            " fix the key, or keep the column in the replication task"
        )
    return tuple(spelled[name.casefold()] for name in key)


def _spelled_link(target: TargetTable, layout: ChangeTableLayout, where: str) -> tuple[str, ...]:
    fault = child_fault(target, layout.data)
    if fault is not None:
        raise FatalError(f"{where}: {fault.detail}")
    return _spell(tuple(link_of(target)), f"the child table {target.child}", layout, where)


def child_fault(target: TargetTable, columns: Sequence[str]) -> RecordFault | None:
    """The fault of all records of a child table, if they lack its link or its values."""
    link = link_of(target)
    if not link:
        return RecordFault(
            Reason.TABLE_KEY,
            f"the columns of {target.child} that hold the key of {target.table} are not known: name them as"
            f" link in [tables.{target.table}.children.{target.child}], or the key of {target.table}",
        )
    present = {name.casefold() for name in columns}
    wanted = (*link, *value_columns(target))
    absent = [name for name in wanted if name.casefold() not in present]
    if not absent:
        return None
    return RecordFault(
        Reason.CHILD_ROW,
        f"the records of the child table {target.child} lack its column {absent[0]}: keep the column in the"
        f" replication task, or fix [tables.{target.table}.children]",
    )


class RowKeys(NamedTuple):
    """The object keys of some rows."""

    codes: Integers
    """Index of each row's key; -1 if it has none."""
    texts: pa.Array
    """The distinct keys."""
    lanes: Integers
    """The lane of each distinct key."""

    def of(self, which: Integers) -> tuple[pa.Array, pa.Array]:
        """Keys and lanes of some rows, all of which have a key."""
        codes = self.codes[which]
        return self.texts.take(pa.array(codes)), pa.array(self.lanes[codes], pa.int32())

    def text(self, row: int) -> str | None:
        """The key of a row."""
        code = int(self.codes[row])
        text: str | None = None if code < 0 else self.texts[code].as_py()
        return text


class KeyReader:
    """Reads the object keys of the rows of one table; each distinct key is checked once."""

    def __init__(
        self, key: tuple[str, ...], columns: DataColumns, names: Names, lanes: int
    ) -> None:
        self._key = key
        self._target = columns.target
        self._names = names
        self._lanes = lanes
        self._sorted = sorted(key, key=columns.key_name)  # the order in canonical keys
        self._spelled = [columns.key_name(name) for name in self._sorted]
        known = [columns.target.form.column(name) for name in self._spelled]
        self._kinds = [kind for _, kind in known]
        self._is_spelled_alike = [name for name, _ in known] == self._spelled

    def read(
        self,
        rows: ChangeRows,
        image: pa.RecordBatch,
        fallback: pa.RecordBatch | None,
        which: Flags | None = None,
    ) -> RowKeys:
        """Reads the object key of each row, or of those in ``which``; rejects rows without a key.

        ``fallback`` is the before image, for key columns that an UPDATE does not supply.
        """
        parts = []
        absent = np.zeros(len(rows), bool)
        canonical = np.full(len(rows), self._is_spelled_alike)
        for name, kind in zip(self._sorted, self._kinds, strict=True):
            values = image.column(name)
            if fallback is not None and values.null_count:
                values = pc.coalesce(values, fallback.column(name))
            absent |= values.is_null().to_numpy(zero_copy_only=False)
            parts.append(quote_values(values))
            if kind is not None:
                canonical &= _are_canonical(values, kind)
        wanted = np.ones(len(rows), bool) if which is None else which
        rows.reject(
            wanted & absent,
            RecordFault(
                Reason.TABLE_KEY,
                f"a key column ({', '.join(self._key)}) is NULL; fix the key, or the source's logging",
            ),
        )
        keys = join_key(self._spelled, parts)
        wanted = wanted & ~absent
        wanted[list(rows.faults)] = False
        return self._check(rows, keys, np.flatnonzero(wanted), canonical)

    def _check(
        self, rows: ChangeRows, keys: pa.Array, wanted: Integers, canonical: Flags
    ) -> RowKeys:
        encoded = pc.dictionary_encode(keys.take(pa.array(wanted)))
        codes = np.full(len(rows), -1, np.int64)
        codes[wanted] = encoded.indices.to_numpy()
        texts: list[str] = encoded.dictionary.to_pylist()
        is_canonical = np.zeros(len(texts), bool)
        is_canonical[codes[wanted]] = canonical[wanted]
        lanes = np.zeros(len(texts), np.int64)
        good = np.flatnonzero(is_canonical)
        if len(good) and self._names.key(self._target, texts[good[0]])[0] != texts[good[0]]:
            good = good[:0]  # the table has another key
        canonical_texts = encoded.dictionary.take(pa.array(good))
        lanes[good] = key_lanes(self._target.hash, canonical_texts, self._lanes)
        is_canonical[:] = False
        is_canonical[good] = True
        for code in np.flatnonzero(~is_canonical).tolist():
            key = self._names.key(self._target, texts[code])
            if isinstance(key, RecordFault):
                wrong = np.flatnonzero(codes == code)
                rows.faults.update(dict.fromkeys(wrong.tolist(), key))
                codes[wrong] = -1
            else:
                texts[code], lanes[code] = key
        return RowKeys(codes, pa.array(texts, pa.string()), lanes)


def _are_canonical(values: pa.Array, kind: str) -> Flags:
    """Marks the values that are the canonical text of a number already."""
    if kind != "int":
        return np.zeros(len(values), bool)
    flags: Flags = pc.fill_null(
        pc.match_substring_regex(values, _CANONICAL_INTEGER), False
    ).to_numpy(zero_copy_only=False)
    return flags

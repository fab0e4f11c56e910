"""The offsets of items in many records of a table: NULL areas and data, by the column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from publisher.formats.columns.byte_areas import Bytes, Mask, Offsets, numbers_at
from publisher.formats.linkexpress.layout import (
    FLAG,
    NOT_NULL,
    ItemLayout,
    RecordForm,
    form_of,
    item_layout,
    numpy_type,
)
from publisher.formats.linkexpress.options import ByteOrder, LinkexpressOptions, LogType
from publisher.formats.linkexpress.types import Item

FITS = -1
"""In ``ItemCells.fault``: all items end inside the record."""


@dataclass(frozen=True, slots=True)
class ItemCells:
    """The items of some records of one table."""

    starts: tuple[Offsets, ...]
    """Offset of each item's data, by item."""
    flags: tuple[npt.NDArray[Any], ...]
    """Values of the NULL areas, by item; empty without NULL areas."""
    ends: Offsets
    """Offset after the last item of each record."""
    fault: npt.NDArray[np.int64]
    """Number of the first item that does not fit into the record, or ``FITS``."""

    def take(self, chosen: Offsets) -> ItemCells:
        """Returns the items of some of the records."""
        return ItemCells(
            tuple(starts[chosen] for starts in self.starts),
            tuple(flags[chosen] for flags in self.flags),
            self.ends[chosen],
            self.fault[chosen],
        )


@dataclass(frozen=True)
class TableLayout:
    """The layout of the records of one table in one file."""

    items: tuple[Item, ...]
    layout: ItemLayout
    form: RecordForm

    @cached_property
    def overhead(self) -> int:
        """Bytes of a record without the data of its items."""
        return self.form.size + (FLAG * len(self.items) if self.form.nulls else 0)

    @cached_property
    def least(self) -> int:
        """Minimum length of a record."""
        return self.overhead + sum(map(self.layout.least, self.items))

    @cached_property
    def greatest(self) -> int:
        """Maximum length of a record."""
        return self.overhead + sum(map(self.layout.greatest, self.items))

    @cached_property
    def fixed(self) -> int | None:
        """Length of every record, ``None`` if lengths differ."""
        return None if any(map(self.layout.is_variable, self.items)) else self.greatest

    def cells(self, data: Bytes, records: Offsets, limits: Offsets) -> ItemCells:
        """Finds the items of records; no item may cross the offset in ``limits``.

        Records of one length must end inside ``data``.
        """
        at = records + self.form.size
        fault = np.full(len(records), FITS, np.int64)
        starts: list[Offsets] = []
        flags: list[npt.NDArray[Any]] = []
        flag_type = numpy_type(self.layout.word("uint16"))
        varies = self.fixed is None
        for number, item in enumerate(self.items):
            null: Mask | None = None
            if self.form.nulls:
                at = _check_inside(at, limits, FLAG, fault, number) if varies else at
                flags.append(numbers_at(data, at, flag_type))
                null = flags[-1] != NOT_NULL
                at = at + FLAG
            starts.append(at)
            if self.layout.is_variable(item):
                at = self._end_of_variable(data, at, limits, null, (number, item, fault))
            else:
                width = self.layout.width(item)
                at = (_check_inside(at, limits, width, fault, number) if varies else at) + width
        return ItemCells(tuple(starts), tuple(flags), at, fault)

    def _end_of_variable(
        self,
        data: Bytes,
        at: Offsets,
        limits: Offsets,
        null: Mask | None,
        which: tuple[int, Item, npt.NDArray[np.int64]],
    ) -> Offsets:
        """Returns the offsets after an item of variable length."""
        number, item, fault = which
        head = self.layout.head(item)
        present = np.ones(len(at), bool) if null is None else ~null
        needed = np.where(present, head, 0 if self.layout.little_null == "absent" else head)
        short = (at + needed > limits) & (fault == FITS)
        fault[short] = number
        present &= fault == FITS
        size = np.zeros(len(at), np.int64)
        if present.any():
            size[present] = self.sizes(data, at[present], item)
        wrong = present & ((size > self.layout.capacity(item)) | (at + head + size > limits))
        fault[wrong] = number
        return np.where(fault == FITS, at + needed + size, 0)

    def sizes(self, data: Bytes, at: Offsets, item: Item) -> Offsets:
        """Returns the bytes of the values of a variable item, by their length words."""
        kind = numpy_type(self.layout.word("uint32" if item.type == "BLOB" else "uint16"))
        word = at + self.layout.head(item) - kind.itemsize
        return numbers_at(data, word, kind).astype(np.int64) * self.layout.unit(item)


def _check_inside(
    at: Offsets, limits: Offsets, width: int, fault: npt.NDArray[np.int64], number: int
) -> Offsets:
    """Records the item as the fault of records in which it does not fit.

    Further items of these records get offset 0, and their values have no meaning.
    """
    fault[(at + width > limits) & (fault == FITS)] = number
    return np.where(fault == FITS, at, 0)


@lru_cache(maxsize=64)
def table_layouts(
    options: LinkexpressOptions, order: ByteOrder, logtype: LogType | None
) -> tuple[TableLayout, ...]:
    """Returns the layouts of the tables in files of one form."""
    form = form_of(options)
    tables = [replace(each, logtype=logtype or each.logtype) for each in options.tables]
    return tuple(
        TableLayout(table.parse_items(), item_layout(options, table, order), form)
        for table in tables
    )

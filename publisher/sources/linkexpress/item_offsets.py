"""Where the items of many records lie: the NULL areas and data of a table's records, by the column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from publisher.sources.columns.byte_areas import Bytes, Mask, Offsets, numbers_at
from publisher.sources.linkexpress.layout import FLAG, NOT_NULL, ItemLayout, RecordForm, numpy_type
from publisher.sources.linkexpress.types import Item

FITS = -1
"""In ``ItemCells.fault``: all items of the record lie inside it."""


@dataclass(frozen=True, slots=True)
class ItemCells:
    """The items of some records of one table."""

    starts: tuple[Offsets, ...]
    """Offset of each item's data, by item."""
    flags: tuple[npt.NDArray[Any], ...]
    """What the NULL areas hold, by item; none where there are no NULL areas."""
    ends: Offsets
    """Offset after the last item of each record."""
    fault: npt.NDArray[np.int64]
    """Number of the first item that cannot lie where it should; ``FITS`` where there is none."""

    def taken(self, chosen: Offsets) -> ItemCells:
        """Those of some of the records."""
        return ItemCells(
            tuple(starts[chosen] for starts in self.starts),
            tuple(flags[chosen] for flags in self.flags),
            self.ends[chosen],
            self.fault[chosen],
        )


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The records of one table, as they lie in one file."""

    items: tuple[Item, ...]
    layout: ItemLayout
    form: RecordForm

    @property
    def overhead(self) -> int:
        """Bytes of a record beside the data of its items."""
        return self.form.size + (FLAG * len(self.items) if self.form.nulls else 0)

    @property
    def least(self) -> int:
        """Bytes of a record at the least."""
        return self.overhead + sum(map(self.layout.least, self.items))

    @property
    def greatest(self) -> int:
        """Bytes of a record at the most."""
        return self.overhead + sum(map(self.layout.greatest, self.items))

    @property
    def fixed(self) -> int | None:
        """Bytes of every record, ``None`` where they differ."""
        return None if any(map(self.layout.is_variable, self.items)) else self.greatest

    def cells(self, data: Bytes, records: Offsets, limits: Offsets) -> ItemCells:
        """Where the items of records lie; ``limits`` are the offsets that no item may cross.

        Records of one length must lie inside ``data``."""
        at = records + self.form.size
        fault = np.full(len(records), FITS, np.int64)
        starts: list[Offsets] = []
        flags: list[npt.NDArray[Any]] = []
        flag_type = numpy_type(self.layout.word("uint16"))
        varies = self.fixed is None
        for number, item in enumerate(self.items):
            null: Mask | None = None
            if self.form.nulls:
                at = _inside(at, limits, FLAG, fault, number) if varies else at
                found = numbers_at(data, at, flag_type)
                flags.append(found)
                null = found != NOT_NULL
                at = at + FLAG
            starts.append(at)
            if self.layout.is_variable(item):
                at = self._after(data, at, limits, null, (number, item, fault))
            else:
                width = self.layout.width(item)
                at = (_inside(at, limits, width, fault, number) if varies else at) + width
        return ItemCells(tuple(starts), tuple(flags), at, fault)

    def _after(
        self,
        data: Bytes,
        at: Offsets,
        limits: Offsets,
        null: Mask | None,
        which: tuple[int, Item, npt.NDArray[np.int64]],
    ) -> Offsets:
        """Offsets after the areas of an item that is as long as its value."""
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
        """Bytes of the values of a variable item, by their length words, at most what is plausible."""
        kind = numpy_type(self.layout.word("uint32" if item.type == "BLOB" else "uint16"))
        word = at + self.layout.head(item) - kind.itemsize
        return numbers_at(data, word, kind).astype(np.int64) * self.layout.unit(item)


def _inside(
    at: Offsets, limits: Offsets, width: int, fault: npt.NDArray[np.int64], number: int
) -> Offsets:
    """Note the records whose item does not fit; from then on they are read at the very beginning,
    where there is something to read, and what is found means nothing."""
    fault[(at + width > limits) & (fault == FITS)] = number
    return np.where(fault == FITS, at, 0)

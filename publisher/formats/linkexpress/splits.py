"""The splits of extract files, with the origin of their bytes and the transactions that they continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from publisher.formats.columns.byte_areas import Offsets
from publisher.formats.files.file_splits import Split
from publisher.formats.linkexpress.file_probe import ExtractFileForm


@dataclass(frozen=True, slots=True)
class SplitOrigin:
    """The named file of a split, and the transaction that the split continues.

    Positions of records refer to the named file.  It differs from the file that is read if an earlier run
    has copied held records into its state.
    """

    shift: int = 0
    """Offset of a byte in the named file minus its offset in the file that is read."""
    since: str | None = None
    """Position of the first record of the transaction that the split continues, if it continues one."""
    rejected: str = ""
    """The reason why an earlier run rejected a record of that transaction, and thereby the transaction."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Offsets before which bytes were left out, each with the shift from there on.

    These are offsets in the file that is read."""

    def named_offset(self, offset: int) -> int:
        """Converts an offset to the offset in the named file."""
        return int(self.named_offsets(np.array([offset], np.int64))[0])

    def named_offsets(self, offsets: Offsets) -> Offsets:
        """Converts offsets to the offsets in the named file."""
        if not self.gaps:
            return offsets + self.shift
        begins, shifts = self._shifts
        return offsets + shifts[np.searchsorted(begins, offsets, side="right")]

    def own_offset(self, named: int) -> int | None:
        """Converts an offset in the named file to the offset in the file that is read.

        Returns ``None`` for bytes that were left out.
        """
        begins, shifts = self._shifts
        number = int(np.searchsorted(begins + shifts[1:], named, side="right"))
        offset = named - int(shifts[number])
        return offset if number == len(begins) or offset < begins[number] else None

    @property
    def _shifts(self) -> tuple[Offsets, Offsets]:
        begins = np.array([at for at, _ in self.gaps], np.int64)
        return begins, np.array([self.shift, *(shift for _, shift in self.gaps)], np.int64)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> SplitOrigin:
        """Builds an origin from its JSON values."""
        gaps = tuple((int(at), int(shift)) for at, shift in plain.get("gaps", ()))
        rejected = str(plain.get("rejected", ""))
        return cls(int(plain["shift"]), plain.get("since"), rejected, gaps)


@dataclass(frozen=True, slots=True)
class ExtractPart:
    """Bytes of a file that begin and end with whole records, or with transactions."""

    start: int
    stop: int
    """Offset after the last byte."""
    first: int
    """Rank of the first byte among the bytes of all files."""
    form: ExtractFileForm
    origin: SplitOrigin = field(default_factory=SplitOrigin)

    @property
    def is_held(self) -> bool:
        """True if no commit record follows, so that its records wait for the next run."""
        return self.form.state == "held"


ExtractSplit = Split[ExtractPart]


def first_position(split: ExtractSplit) -> str:
    """Returns the position of the first byte of a split."""
    part = split.payload
    return f"{Path(split.path).name}:{part.origin.named_offset(part.start)}"


def join_transactions(splits: Sequence[ExtractSplit]) -> list[ExtractSplit]:
    """Joins transactions that begin in one file and continue in the next.

    The given splits hold the records after the last commit record of each file; the returned ones hold only
    the records after the last commit record of all files.
    """
    ends = [split for split in splits if split.size and not split.payload.is_held]
    last = splits.index(ends[-1]) if ends else -1
    joined: list[ExtractSplit] = []
    since: str | None = None  # splits of held records have a value from an earlier run
    rejected = ""
    for number, split in enumerate(splits):
        form, origin = split.payload.form, split.payload.origin
        is_tail = split.payload.is_held
        if is_tail and number < last:
            form = replace(form, state="tail")
        since, rejected = since or origin.since, rejected or origin.rejected
        origin = replace(origin, since=since, rejected=rejected)
        joined.append(split.with_payload(replace(split.payload, form=form, origin=origin)))
        if is_tail:
            since = since or first_position(joined[-1])
        elif split.size:
            since, rejected = None, ""
    return joined

"""Records after the last commit record of a group's differences, held for the next run.

The records of a transaction whose commit record is in a later file are held until that file is read, by
the same run or a later one.  So a run stores the bytes of held records, under the name of their file and
with their offsets there, and the next run reads them first.  Rejected records have their outcome and are
not stored; only the reason is: it rejects the rest of their transaction.  The exception is the beginning
of a record with which a file was cut, if the next file has the record completely.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from publisher.journal.durable import read_versioned
from publisher.sources.columns.byte_areas import Offsets
from publisher.sources.files.file_splits import Split
from publisher.sources.files.mapped_file import map_file
from publisher.sources.linkexpress.file_probe import ExtractFileForm, State

_INDEX = "held.json"
FORMAT = 3
"""Version of the index: 1 was a bare list of files, without reject reasons; 2 had no refused files."""
_COPY_BYTES = 1 << 22


Ranges = Sequence[tuple[int, int]]
"""First byte and byte after the last of consecutive records."""


@dataclass(frozen=True, slots=True)
class SplitOrigin:
    """The file after which records of a split are named, and the transaction that the split continues."""

    shift: int = 0
    """Added to an offset to give that in the named file."""
    since: str | None = None
    """The transaction that continues at its beginning, as the position of its first record."""
    rejected: str = ""
    """The reason why that transaction is rejected: an earlier run has rejected a record of it."""
    refused: tuple[str, ...] = ()
    """Files all of whose records were rejected: once they are read again, the transaction is not rejected."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Offsets after which bytes were left out, and the shift from there on."""

    def named_offset(self, offset: int) -> int:
        """The offset of a byte in the named file."""
        return int(self.named_offsets(np.array([offset], np.int64))[0])

    def named_offsets(self, offsets: Offsets) -> Offsets:
        """The offsets of bytes in the named file."""
        if not self.gaps:
            return offsets + self.shift
        begins, shifts = self._shifts
        return offsets + shifts[np.searchsorted(begins, offsets, side="right")]

    def own_offset(self, named: int) -> int | None:
        """The inverse of ``named_offset``; ``None`` for bytes that were left out."""
        begins, shifts = self._shifts
        number = int(np.searchsorted(begins + shifts[1:], named, side="right"))
        offset = named - int(shifts[number])
        return offset if number == len(begins) or offset < begins[number] else None

    @property
    def _shifts(self) -> tuple[Offsets, Offsets]:
        begins = np.array([at for at, _ in self.gaps], np.int64)
        return begins, np.array([self.shift, *(shift for _, shift in self.gaps)], np.int64)

    @property
    def text(self) -> str:
        """JSON text for a split; empty for the default."""
        return "" if self == SplitOrigin() else json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> SplitOrigin:
        """The inverse of ``text``."""
        return cls.from_plain(json.loads(text)) if text else cls()

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> SplitOrigin:
        """Builds an origin from the values of JSON."""
        gaps = tuple((int(at), int(shift)) for at, shift in plain.get("gaps", ()))
        rejected = str(plain.get("rejected", ""))
        refused = tuple(plain.get("refused", ()))
        return cls(int(plain["shift"]), plain.get("since"), rejected, refused, gaps)


class HeldTail(NamedTuple):
    """The held records of a tail, and the reason why their transaction is rejected when it ends."""

    ranges: Ranges
    rejected: str
    cut: bytes
    """The beginning of a record with which its file ends, if nothing else is rejected."""
    is_refused: bool = False
    """Whether the tail is a whole file, all records of which are rejected."""


@dataclass(frozen=True, slots=True)
class InputPart:
    """Bytes that are read as one: a file, or the held part of one."""

    path: Path
    size: int
    known: ExtractFileForm | None = None
    """``None`` if it must be recognised."""
    origin: SplitOrigin = field(default_factory=SplitOrigin)
    cut: bytes = b""
    """See ``HeldTail``."""


def accept_completed(held: Sequence[InputPart], new: Sequence[InputPart]) -> list[InputPart]:
    """Returns the held parts, accepting rejected ones that the new parts complete.

    A new part completes them if it begins with the cut record, so that the missing bytes were sent, or if
    the refused files are read again.
    """
    read = {str(part.path.resolve()) for part in new}
    parts = [_accept(part) if _is_read_again(part, read) else part for part in held]
    cut = next((part.cut for part in parts if part.cut), b"")
    following = next((part for part in new if part.size), None)
    if not cut or following is None:
        return parts
    if map_file(str(following.path), following.size)[: len(cut)].tobytes() != cut:
        return parts
    return [_accept(part) for part in parts]


def _is_read_again(part: InputPart, read: Collection[str]) -> bool:
    """Returns whether all files for which a part is rejected are read now."""
    return bool(part.origin.refused) and set(part.origin.refused) <= set(read)


def _accept(part: InputPart) -> InputPart:
    return replace(part, origin=replace(part.origin, rejected="", refused=()))


def read_held_parts(folder: Path | None) -> list[InputPart]:
    """Reads the parts that an earlier run has held.  Raises ``FatalError`` if they are damaged."""
    if folder is None:
        return []

    def part(entry: dict[str, Any]) -> InputPart:
        path, form = folder / entry["file"], ExtractFileForm.of(entry["form"])
        origin = SplitOrigin.from_plain(entry | {"shift": entry["offset"]})
        return InputPart(path, path.stat().st_size, form, origin, bytes.fromhex(entry["cut"]))

    def decode(content: dict[str, Any]) -> list[InputPart]:
        return [part(entry) for entry in content["held"]]

    remedy = "give the source a new name and publish the held records with it"
    return read_versioned(folder / _INDEX, FORMAT, decode, remedy) or []


def write_held_parts(
    folder: Path, held: Iterable[Split], tail_of: Callable[[Split], HeldTail]
) -> None:
    """Writes the held records of splits for the next run.

    Raises ``FatalError`` if a file has changed.
    """
    folder.mkdir(parents=True)
    entries = []
    tails = [(split, tail_of(split)) for split in held]
    # all tails belong to one transaction
    rejected = next((tail.rejected for _, tail in tails if tail.rejected), "")
    is_one = sum(1 for _, tail in tails if tail.rejected) == 1
    refused = _refused_files(tails)
    for number, (split, (ranges, _, cut, _)) in enumerate(tails):
        if not ranges and not rejected:
            continue
        name = f"{number:05d}/{Path(split.path).name}"
        (folder / name).parent.mkdir()
        _copy(split, ranges, folder / name)
        origin = _origin_of_copy(split, ranges)
        state: State = "whole" if ranges else "held"  # no bytes would show that it is held
        entries.append(
            {
                "file": name,
                "offset": origin.shift,
                "since": origin.since,
                "rejected": rejected,
                "refused": refused,
                "cut": cut.hex() if is_one else "",
                "gaps": origin.gaps,
                "form": replace(ExtractFileForm.of(split.kind), state=state).text,
            }
        )
    if entries:
        index = json.dumps({"format": FORMAT, "held": entries}, ensure_ascii=False)
        (folder / _INDEX).write_text(index, encoding="utf-8")


def _refused_files(tails: Sequence[tuple[Split, HeldTail]]) -> list[str]:
    """The refused files for which a transaction is rejected; none if it is rejected for others, too."""
    files: list[str] = []
    for split, tail in tails:
        before = SplitOrigin.of(split.found)
        if before.rejected and not before.refused:
            return []
        files += before.refused
        if tail.is_refused:
            files.append(str(Path(split.path).resolve()))
        elif tail.rejected and not before.rejected:
            return []
    return sorted(set(files))


def _copy(split: Split, ranges: Ranges, target: Path) -> None:
    data = map_file(split.path, split.length)
    with target.open("wb") as file:
        for start, stop in ranges:
            for at in range(start, stop, _COPY_BYTES):
                data[at : min(at + _COPY_BYTES, stop)].tofile(file)


def _origin_of_copy(split: Split, ranges: Ranges) -> SplitOrigin:
    """The origin of a file into which ranges of a split were copied one after the other."""
    origin, at = SplitOrigin.of(split.found), 0
    shifts: list[tuple[int, int]] = []
    before = [gap for gap, _ in origin.gaps]
    for start, stop in ranges:
        cuts = [start, *(gap for gap in before if start < gap < stop), stop]
        for first, last in pairwise(cuts):
            shifts.append((at, origin.named_offset(first) - at))
            at += last - first
    since = origin.since or f"{Path(split.path).name}:{origin.named_offset(split.start)}"
    return SplitOrigin(shifts[0][1] if shifts else 0, since, gaps=tuple(shifts[1:]))


def join_transactions(splits: Sequence[Split]) -> list[Split]:
    """Joins transactions of a group's differences that continue in the next file.

    Each file comes with a held tail; afterwards only the records behind the last commit record of all are
    held.
    """
    ends = [
        split for split in splits if split.size and ExtractFileForm.of(split.kind).state != "held"
    ]
    last = splits.index(ends[-1]) if ends else -1
    joined: list[Split] = []
    since: str | None = None  # splits that an earlier run has held know it themselves
    rejected = ""
    refused: tuple[str, ...] = ()
    for number, split in enumerate(splits):
        form, origin = ExtractFileForm.of(split.kind), SplitOrigin.of(split.found)
        is_tail = form.state == "held"
        if is_tail and number < last:
            form = replace(form, state="tail")
        since, rejected = since or origin.since, rejected or origin.rejected
        refused = refused or origin.refused
        origin = replace(origin, since=since, rejected=rejected, refused=refused)
        joined.append(replace(split, kind=form.text, found=origin.text))
        if is_tail:
            since = since or f"{Path(split.path).name}:{origin.named_offset(split.start)}"
        elif split.size:
            since, rejected, refused = None, "", ()
    return joined

"""What stands behind the last commit record of a group's differences.

The records of a transaction whose commit record is in a later file are held until that file is read:
with the same run, else with the one that reads it.  So a run keeps the bytes of what it held, under the
name of their file and with the offsets that they had there, and the next run reads them first.  What it
rejected among them has its outcome and is not kept, only why: it rejects the rest of its transaction,
unless it is the begin of a record with which a file was cut, and the next file has it whole.
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
from publisher.sources.linkexpress.file_probe import ExtractFileForm, State, file_form

_INDEX = "held.json"
FORMAT = 3
"""Version of the index: 1 was a bare list of the files, without the reason of a reject; 2 knew no refused
files."""
_BYTES = 1 << 22


Ranges = Sequence[tuple[int, int]]
"""First byte and byte after the last of records in a row."""


@dataclass(frozen=True, slots=True)
class SplitOrigin:
    """What a split of a group's differences is told besides, as JSON text."""

    shift: int = 0
    """What is added to an offset to give that in the file which records are named by."""
    since: str | None = None
    """The transaction that goes on at its begin, as the position of its first record."""
    rejected: str = ""
    """Why that transaction is rejected as a whole: an earlier run has rejected a record of it."""
    refused: tuple[str, ...] = ()
    """The files that it is rejected for, where all their records were: they stay unpublished, and the
    reject ends when they are read again."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Offsets behind which something was left out, and the shift from there on."""

    def place(self, offset: int) -> int:
        """Where a byte stands in the file that records are named by."""
        return int(self.places(np.array([offset], np.int64))[0])

    def places(self, offsets: Offsets) -> Offsets:
        """The same of many."""
        if not self.gaps:
            return offsets + self.shift
        begins, shifts = self._shifts
        return offsets + shifts[np.searchsorted(begins, offsets, side="right")]

    def offset(self, place: int) -> int | None:
        """The inverse of ``place``; ``None`` for what was left out."""
        begins, shifts = self._shifts
        number = int(np.searchsorted(begins + shifts[1:], place, side="right"))
        offset = place - int(shifts[number])
        return offset if number == len(begins) or offset < begins[number] else None

    @property
    def _shifts(self) -> tuple[Offsets, Offsets]:
        begins = np.array([at for at, _ in self.gaps], np.int64)
        return begins, np.array([self.shift, *(shift for _, shift in self.gaps)], np.int64)

    @property
    def text(self) -> str:
        """As a split keeps it; nothing where there is nothing to be told."""
        return "" if self == SplitOrigin() else json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> SplitOrigin:
        """The inverse of ``text``."""
        return cls.from_plain(json.loads(text)) if text else cls()

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> SplitOrigin:
        """From the values of JSON."""
        gaps = tuple((int(at), int(shift)) for at, shift in plain.get("gaps", ()))
        rejected = str(plain.get("rejected", ""))
        refused = tuple(plain.get("refused", ()))
        return cls(int(plain["shift"]), plain.get("since"), rejected, refused, gaps)


class HeldTail(NamedTuple):
    """The records of a tail that are held, and why their transaction is rejected when it ends."""

    ranges: Ranges
    rejected: str
    cut: bytes
    """The begin of a record with which its file ends, where nothing else is rejected."""
    is_refused: bool = False
    """Whether it is a whole file, all records of which are rejected."""


@dataclass(frozen=True, slots=True)
class InputPart:
    """Bytes that are read as a whole: a file, or what an earlier run has held of one."""

    path: Path
    size: int
    known: ExtractFileForm | None = None
    """``None``: to be found out."""
    found: SplitOrigin = field(default_factory=SplitOrigin)
    cut: bytes = b""
    """See ``HeldTail``."""


def completed(before: Sequence[InputPart], new: Sequence[InputPart]) -> list[InputPart]:
    """The pieces that earlier runs have held, not rejected where the next file begins with the cut
    record, as the missing bytes were sent, or where the files that were refused are read again."""
    read = {str(piece.path.resolve()) for piece in new}
    pieces = [_accepted(piece) if _is_read_again(piece, read) else piece for piece in before]
    cut = next((piece.cut for piece in pieces if piece.cut), b"")
    following = next((piece for piece in new if piece.size), None)
    if not cut or following is None:
        return pieces
    if map_file(str(following.path), following.size)[: len(cut)].tobytes() != cut:
        return pieces
    return [_accepted(piece) for piece in pieces]


def _is_read_again(piece: InputPart, read: Collection[str]) -> bool:
    """Whether all files that a piece is rejected for are among those that are read now."""
    return bool(piece.found.refused) and set(piece.found.refused) <= set(read)


def _accepted(piece: InputPart) -> InputPart:
    return replace(piece, found=replace(piece.found, rejected="", refused=()))


def kept_pieces(folder: Path | None) -> list[InputPart]:
    """Reads the pieces that an earlier run has held.  Raises ``FatalError`` where they are damaged."""
    if folder is None:
        return []

    def piece(entry: dict[str, Any]) -> InputPart:
        path, form = folder / entry["file"], file_form(entry["form"])
        found = SplitOrigin.from_plain(entry | {"shift": entry["offset"]})
        return InputPart(path, path.stat().st_size, form, found, bytes.fromhex(entry["cut"]))

    def decode(content: dict[str, Any]) -> list[InputPart]:
        return [piece(entry) for entry in content["held"]]

    remedy = "give the source a new name and publish the held records with it"
    return read_versioned(folder / _INDEX, FORMAT, decode, remedy) or []


def keep(folder: Path, held: Iterable[Split], tail_of: Callable[[Split], HeldTail]) -> None:
    """Writes what is held of splits for the next run.

    Raises ``FatalError`` where a file has changed."""
    folder.mkdir(parents=True)
    entries = []
    tails = [(split, tail_of(split)) for split in held]
    # all of them are of one transaction
    rejected = next((tail.rejected for _, tail in tails if tail.rejected), "")
    is_one = sum(1 for _, tail in tails if tail.rejected) == 1
    refused = _refused(tails)
    for number, (split, (pieces, _, cut, _)) in enumerate(tails):
        if not pieces and not rejected:
            continue
        name = f"{number:05d}/{Path(split.path).name}"
        (folder / name).parent.mkdir()
        _copy(split, pieces, folder / name)
        kept = _as_kept(split, pieces)
        state: State = "whole" if pieces else "held"  # without bytes nothing else tells that it is
        entries.append(
            {
                "file": name,
                "offset": kept.shift,
                "since": kept.since,
                "rejected": rejected,
                "refused": refused,
                "cut": cut.hex() if is_one else "",
                "gaps": kept.gaps,
                "form": replace(file_form(split.kind), state=state).text,
            }
        )
    if entries:
        index = json.dumps({"format": FORMAT, "held": entries}, ensure_ascii=False)
        (folder / _INDEX).write_text(index, encoding="utf-8")


def _refused(tails: Sequence[tuple[Split, HeldTail]]) -> list[str]:
    """The refused files that a transaction is rejected for; none where it is rejected for others, too."""
    found: list[str] = []
    for split, tail in tails:
        before = SplitOrigin.of(split.found)
        if before.rejected and not before.refused:
            return []
        found += before.refused
        if tail.is_refused:
            found.append(str(Path(split.path).resolve()))
        elif tail.rejected and not before.rejected:
            return []
    return sorted(set(found))


def _copy(split: Split, pieces: Ranges, target: Path) -> None:
    data = map_file(split.path, split.length)
    with target.open("wb") as file:
        for start, stop in pieces:
            for at in range(start, stop, _BYTES):
                data[at : min(at + _BYTES, stop)].tofile(file)


def _as_kept(split: Split, pieces: Ranges) -> SplitOrigin:
    """Where the pieces of a split stand in the file that they are named by, when they follow each
    other in one of their own."""
    found, at = SplitOrigin.of(split.found), 0
    shifts: list[tuple[int, int]] = []
    before = [gap for gap, _ in found.gaps]
    for start, stop in pieces:
        cuts = [start, *(gap for gap in before if start < gap < stop), stop]
        for first, last in pairwise(cuts):
            shifts.append((at, found.place(first) - at))
            at += last - first
    since = found.since or f"{Path(split.path).name}:{found.place(split.start)}"
    return SplitOrigin(shifts[0][1] if shifts else 0, since, gaps=tuple(shifts[1:]))


def joined(splits: Sequence[Split]) -> list[Split]:
    """The splits of a group's differences, in which every file's tail is held: only what stands behind
    the last commit record of all is, and a transaction that goes on in the next file is one."""
    ends = [split for split in splits if split.size and file_form(split.kind).state != "held"]
    last = splits.index(ends[-1]) if ends else -1
    made: list[Split] = []
    since: str | None = None  # what an earlier run has held says itself since when
    rejected = ""
    refused: tuple[str, ...] = ()
    for number, split in enumerate(splits):
        form, found = file_form(split.kind), SplitOrigin.of(split.found)
        is_tail = form.state == "held"
        if is_tail and number < last:
            form = replace(form, state="tail")
        since, rejected = since or found.since, rejected or found.rejected
        refused = refused or found.refused
        found = replace(found, since=since, rejected=rejected, refused=refused)
        made.append(replace(split, kind=form.text, found=found.text))
        if is_tail:
            since = since or f"{Path(split.path).name}:{found.place(split.start)}"
        elif split.size:
            since, rejected, refused = None, "", ()
    return made

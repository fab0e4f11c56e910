"""Records after the last commit record of a group's differences, held for the next run.

The records of a transaction whose commit record is in a later file are held until that file is read, by
the same run or a later one.  So a run stores the bytes of held records, under the name of their file and
with their offsets there, and the next run reads them first.  Rejected records already have their outcome, so
only the reason is stored, which rejects the rest of their transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from publisher.formats.files.mapped_file import map_file
from publisher.formats.linkexpress.file_probe import ExtractFileForm, State
from publisher.formats.linkexpress.splits import ExtractSplit, SplitOrigin, first_position
from publisher.ledger.durable import create_private, read_versioned_file

_INDEX = "held.json"
FORMAT = 4
"""Version of the index: 3 had refused files and cut records."""
_COPY_BYTES = 1 << 22


Ranges = Sequence[tuple[int, int]]
"""First byte and byte after the last of consecutive records."""


class HeldTail(NamedTuple):
    """The held records after the last commit record of a file (its tail), and the reason why their
    transaction is rejected when it ends."""

    ranges: Ranges
    rejected: str


@dataclass(frozen=True, slots=True)
class InputPart:
    """Bytes that are read together: a file, or the held part of a file."""

    path: Path
    size: int
    form: ExtractFileForm | None = None
    """``None`` if it must be recognised."""
    origin: SplitOrigin = field(default_factory=SplitOrigin)


def read_held_parts(folder: Path | None) -> list[InputPart]:
    """Reads the parts that an earlier run has held.  Raises ``FatalError`` if they are damaged."""
    if folder is None:
        return []

    def part(entry: dict[str, Any]) -> InputPart:
        path, form = folder / entry["file"], ExtractFileForm.of(entry["form"])
        origin = SplitOrigin.from_plain(entry | {"shift": entry["offset"]})
        return InputPart(path, Path(path).stat().st_size, form, origin)

    def decode(content: dict[str, Any]) -> list[InputPart]:
        return [part(entry) for entry in content["held"]]

    remedy = "give the source a new name and publish the held records with it"
    return read_versioned_file(folder / _INDEX, FORMAT, decode, remedy) or []


def write_held_parts(
    folder: Path, held: Iterable[ExtractSplit], tail_of: Callable[[ExtractSplit], HeldTail]
) -> None:
    """Writes the held records of splits for the next run.

    Raises ``FatalError`` if a file has changed.
    """
    folder.mkdir(parents=True)
    entries = []
    tails = [(split, tail_of(split)) for split in held]
    # all tails belong to one transaction
    rejected = next((tail.rejected for _, tail in tails if tail.rejected), "")
    for number, (split, (ranges, _)) in enumerate(tails):
        if not ranges and not rejected:
            continue
        name = f"{number:05d}/{Path(split.path).name}"
        (folder / name).parent.mkdir()
        _copy(split, ranges, folder / name)
        origin = _origin_of_copy(split, ranges)
        state: State = "whole" if ranges else "held"  # without bytes, only the state shows the hold
        entries.append(
            {
                "file": name,
                "offset": origin.shift,
                "since": origin.since,
                "rejected": rejected,
                "gaps": origin.gaps,
                "form": replace(split.payload.form, state=state).text,
            }
        )
    if entries:
        index = json.dumps({"format": FORMAT, "held": entries}, ensure_ascii=False)
        with create_private(folder / _INDEX) as file:  # it has records, too
            file.write(index.encode())


def _copy(split: ExtractSplit, ranges: Ranges, target: Path) -> None:
    data = map_file(split.path, split.length)
    with create_private(target) as file:
        for start, stop in ranges:
            for at in range(start, stop, _COPY_BYTES):
                file.write(data[at : min(at + _COPY_BYTES, stop)].tobytes())


def _origin_of_copy(split: ExtractSplit, ranges: Ranges) -> SplitOrigin:
    """Returns the origin of a file into which ranges of a split were copied one after the other."""
    origin, at = split.payload.origin, 0
    shifts: list[tuple[int, int]] = []
    before = [gap for gap, _ in origin.gaps]
    for start, stop in ranges:
        cuts = [start, *(gap for gap in before if start < gap < stop), stop]
        for first, last in pairwise(cuts):
            shifts.append((at, origin.named_offset(first) - at))
            at += last - first
    since = origin.since or first_position(split)
    return SplitOrigin(shifts[0][1] if shifts else 0, since, gaps=tuple(shifts[1:]))

"""Refused files of a group whose transactions ended without their records.

A file of which all records are rejected stays unpublished, and is read again once it or the settings are
fixed.  Its first transaction may have begun in an earlier file, and its last one may have ended in a later
file: then these transactions have been rejected as a whole, and the rest of them that the file has is
rejected, too, when the file is read again.  A replay of all their files publishes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from publisher.journal.durable import read_versioned
from publisher.sources.linkexpress.carry_over import InputPart
from publisher.sources.linkexpress.splits import ExtractSplit, SplitOrigin

_INDEX = "ended.json"
FORMAT = 1
"""Version of the index."""
_WHY = (
    "its other records were rejected when all of this file were; replay the files that have records of it"
    " together, with --from and --until around them"
)


@dataclass(frozen=True, slots=True)
class EndedFile:
    """A refused file, and which of its transactions ended without it."""

    path: str
    """The resolved path."""
    first: bool
    """Whether its first transaction began in an earlier file, and was rejected."""
    last: bool
    """Whether the transaction after its last commit record ended in a later file, and was rejected."""

    def merge(self, other: EndedFile | None) -> EndedFile:
        """Adds the transactions that are known from an earlier run."""
        if other is None:
            return self
        return replace(self, first=self.first or other.first, last=self.last or other.last)


def read_ended_files(folder: Path | None) -> Mapping[str, EndedFile]:
    """Reads the files of earlier runs, by path.  Raises ``FatalError`` if they are damaged."""
    if folder is None:
        return {}

    def decode(content: dict[str, Any]) -> dict[str, EndedFile]:
        return {each["path"]: EndedFile(**each) for each in content["ended"]}

    remedy = (
        "remove it, and do not publish files again of which all records were rejected: replay them"
    )
    return read_versioned(folder / _INDEX, FORMAT, decode, remedy) or {}


def write_ended_files(folder: Path, ended: Iterable[EndedFile]) -> None:
    """Adds files to those in a folder."""
    known = dict(read_ended_files(folder))
    for each in ended:
        known[each.path] = each.merge(known.get(each.path))
    if known:
        folder.mkdir(parents=True, exist_ok=True)
        index = {"format": FORMAT, "ended": [asdict(each) for each in known.values()]}
        (folder / _INDEX).write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def find_ended_files(
    splits: Sequence[ExtractSplit], refused: Sequence[bool]
) -> Iterator[EndedFile]:
    """Yields the files among the refused splits of a run of which a transaction ended."""
    by_path: dict[str, list[ExtractSplit]] = {}
    for split, is_refused in zip(splits, refused, strict=True):
        if is_refused and split.size:
            by_path.setdefault(str(Path(split.path).resolve()), []).append(split)
    for path, own in by_path.items():
        begin, end = own[0].payload, own[-1].payload
        continues = begin.origin.since is not None and not begin.is_held
        ended = EndedFile(path, continues, end.form.state == "tail")
        if ended.first or ended.last:
            yield ended


def find_ended_earlier(
    held: Iterable[InputPart], splits: Sequence[ExtractSplit]
) -> Iterator[EndedFile]:
    """Yields files that an earlier run has refused if the held records after them are held no longer."""
    tails = {split.path for split in splits if split.payload.is_held}
    for part in held:
        for path in part.origin.refused if str(part.path) not in tails else ():
            began_here = (part.origin.since or "").startswith(f"{Path(path).name}:")
            yield EndedFile(path, first=not began_here, last=True)


def drop_own_rejects(held: Iterable[InputPart], again: Iterable[EndedFile]) -> Iterator[InputPart]:
    """Yields held parts, but not the rejected records of files that are read again."""
    names = {Path(each.path).name for each in again}
    for part in held:
        if part.size or (part.origin.since or "").rpartition(":")[0] not in names:
            yield part


def reject_ended(splits: Sequence[ExtractSplit], ended: EndedFile) -> list[ExtractSplit]:
    """Rejects the transactions of a file that ended without it."""
    closed = []
    for split in splits:
        part = split.payload
        is_last = ended.last and part.is_held
        if is_last or (ended.first and part.start == 0):
            since = f"{Path(split.path).name}:{part.start}"
            part = replace(part, origin=SplitOrigin(since=since, rejected=_WHY))
        if is_last:
            part = replace(part, form=replace(part.form, state="tail"))
        closed.append(split.with_payload(part))
    return closed

"""Refused files of a group, some of whose transactions ended without the records of the file.

A file whose records are all rejected stays unpublished, and is read again once it or the settings are fixed.
Its first transaction may have begun in an earlier file, and its last transaction may have ended in a later
file.  Such transactions were rejected as a whole, so their records in this file are rejected, too, when the
file is read again.  A replay of all files of the transactions publishes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from publisher.journal.durable import read_versioned_file
from publisher.sources.linkexpress.carry_over import InputPart
from publisher.sources.linkexpress.splits import ExtractSplit, SplitOrigin

_INDEX = "ended.json"
FORMAT = 1
"""Version of the index."""
_WHY = (
    "its records in other files were rejected together with this file; replay all files of the transaction"
    " together, with --from and --until around it"
)


@dataclass(frozen=True, slots=True)
class EndedFile:
    """A refused file, and which of its transactions ended without it."""

    path: str
    """The resolved path."""
    first: bool
    """True if its first transaction began in an earlier file, and was rejected."""
    last: bool
    """True if the transaction after its last commit record ended in a later file, and was rejected."""

    def merge(self, earlier: EndedFile | None) -> EndedFile:
        """Adds the transactions that are known from an earlier run."""
        if earlier is None:
            return self
        return replace(self, first=self.first or earlier.first, last=self.last or earlier.last)


def read_ended_files(folder: Path | None) -> Mapping[str, EndedFile]:
    """Reads the files of earlier runs, by path.  Raises ``FatalError`` if they are damaged."""
    if folder is None:
        return {}

    def decode(content: dict[str, Any]) -> dict[str, EndedFile]:
        return {each["path"]: EndedFile(**each) for each in content["ended"]}

    remedy = "remove it; replay files whose records were all rejected, do not publish them again"
    return read_versioned_file(folder / _INDEX, FORMAT, decode, remedy) or {}


def write_ended_files(folder: Path, ended: Iterable[EndedFile]) -> None:
    """Adds files to the index in a folder."""
    by_path = dict(read_ended_files(folder))
    for each in ended:
        by_path[each.path] = each.merge(by_path.get(each.path))
    if by_path:
        folder.mkdir(parents=True, exist_ok=True)
        index = {"format": FORMAT, "ended": [asdict(each) for each in by_path.values()]}
        (folder / _INDEX).write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def find_ended_files(
    splits: Sequence[ExtractSplit], refused: Sequence[bool]
) -> Iterator[EndedFile]:
    """Yields the refused files of a run that share a transaction with another file."""
    by_path: dict[str, list[ExtractSplit]] = {}
    for split, is_refused in zip(splits, refused, strict=True):
        if is_refused and split.size:
            by_path.setdefault(str(Path(split.path).resolve()), []).append(split)
    for path, of_file in by_path.items():
        begin, end = of_file[0].payload, of_file[-1].payload
        continues = begin.origin.since is not None and not begin.is_held
        ended = EndedFile(path, continues, end.form.state == "tail")
        if ended.first or ended.last:
            yield ended


def find_ended_earlier(
    held: Iterable[InputPart], splits: Sequence[ExtractSplit]
) -> Iterator[EndedFile]:
    """Yields files that an earlier run has refused, if the records held after them are not held any more."""
    tails = {split.path for split in splits if split.payload.is_held}
    for part in held:
        for path in part.origin.refused if str(part.path) not in tails else ():
            began_here = (part.origin.since or "").startswith(f"{Path(path).name}:")
            yield EndedFile(path, first=not began_here, last=True)


def drop_own_rejects(held: Iterable[InputPart], reread: Iterable[EndedFile]) -> Iterator[InputPart]:
    """Yields held parts, except empty ones that only record rejects of files which are read again."""
    names = {Path(each.path).name for each in reread}
    for part in held:
        if part.size or (part.origin.since or "").rpartition(":")[0] not in names:
            yield part


def reject_cut_transactions(splits: Sequence[ExtractSplit], ended: EndedFile) -> list[ExtractSplit]:
    """Rejects the transactions of a file that ended without its records."""
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

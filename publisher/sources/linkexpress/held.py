"""What stands behind the last commit record of a group's differences.

The records of a transaction whose commit record is in a later file are held until that file is read:
with the same run, else with the one that reads it.  So a run keeps the bytes of what it held, under the
name of their file and with the offset that they had there, and the next run reads them first.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from publisher.errors import FatalError
from publisher.sources.linkexpress.file_form import FileForm, file_form
from publisher.sources.snapshots import Split

_INDEX = "held.json"


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that are read as a whole: a file, or what an earlier run has held of one."""

    path: Path
    size: int
    shift: int = 0
    """Where its first byte stands in the file that its records are named by."""
    known: FileForm | None = None
    """``None``: to be found out."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a split of a group's differences is told besides, as JSON text."""

    shift: int = 0
    """What is added to an offset to give that in the file which records are named by."""
    since: str | None = None
    """The transaction that goes on at its begin, as the position of its first record."""

    @property
    def text(self) -> str:
        """As a split keeps it; nothing where there is nothing to be told."""
        return "" if self == Found() else json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Found:
        """The inverse of ``text``."""
        return cls(**json.loads(text)) if text else cls()


def kept_pieces(folder: Path | None) -> list[Piece]:
    """What an earlier run has held.  Raises ``FatalError`` where it is damaged."""
    if folder is None or not (folder / _INDEX).exists():
        return []
    pieces = []
    try:
        for entry in json.loads((folder / _INDEX).read_text(encoding="utf-8")):
            path, form = folder / entry["file"], file_form(entry["form"])
            pieces.append(Piece(path, path.stat().st_size, entry["offset"], form))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FatalError(
            f"{folder} is damaged, which has the records that earlier runs have held ({error}): restore it"
        ) from error
    return pieces


def keep(folder: Path, held: Iterable[Split]) -> None:
    """Writes the bytes of splits for the next run.  Raises ``FatalError`` where one has changed."""
    folder.mkdir(parents=True)
    entries = []
    for number, split in enumerate(held):
        name = f"{number:05d}/{Path(split.path).name}"
        (folder / name).parent.mkdir()
        _copy(split, folder / name)
        entries.append(
            {
                "file": name,
                "offset": split.start + Found.of(split.found).shift,
                "form": replace(file_form(split.kind), state="whole").text,
            }
        )
    if entries:
        (folder / _INDEX).write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")


def _copy(split: Split, target: Path) -> None:
    with Path(split.path).open("rb") as source, target.open("wb") as file:
        source.seek(split.start)
        if os.fstat(source.fileno()).st_size != split.stop:
            raise FatalError(f"{split.path} has changed since the run began; start again")
        shutil.copyfileobj(source, file)


def joined(splits: Sequence[Split]) -> list[Split]:
    """The splits of a group's differences, in which every file's tail is held: only what stands behind
    the last commit record of all is, and a transaction that goes on in the next file is one."""
    ends = [split for split in splits if split.size and file_form(split.kind).state != "held"]
    last = splits.index(ends[-1]) if ends else -1
    made: list[Split] = []
    since: str | None = None
    for number, split in enumerate(splits):
        form, found = file_form(split.kind), Found.of(split.found)
        is_tail = form.state == "held"
        if is_tail and number < last:
            form = replace(form, state="tail")
        made.append(replace(split, kind=form.text, found=replace(found, since=since).text))
        if is_tail:
            since = since or f"{Path(split.path).name}:{split.start + found.shift}"
        elif split.size:
            since = None
    return made

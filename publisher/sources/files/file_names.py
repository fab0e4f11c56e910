"""Lists input files; journals and positions keep their names as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from publisher.errors import UsageError


def refuse_undecodable(paths: Iterable[Path]) -> None:
    """Refuses names with bytes that are not text, which no journal can store.

    Raises:
        UsageError: Names the first of them.
    """
    for path in paths:
        try:
            str(path.absolute()).encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{path}: the name of the file or of a directory above it has bytes that are not "
                "UTF-8, and journals keep names as text: rename it"
            ) from None


def list_files(
    paths: Iterable[str | os.PathLike[str]],
    accepts: Callable[[Path], bool] = lambda _path: True,
    refusal: str = "",
) -> list[Path]:
    """Lists files: as given, those of directories in name order; without hidden ones and those with ``_``.

    Directories may have other files than ``accepts`` accepts.

    Raises:
        UsageError: A path does not exist, ``accepts`` refuses it, or its name cannot be stored.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not _is_hidden(p, path))
            found += filter(accepts, inside)
        elif not path.is_file():
            raise UsageError(f"{path} does not exist; name a file or a directory")
        elif not accepts(path):
            raise UsageError(f"{path}: {refusal}")
        else:
            found.append(path)
    refuse_undecodable(found)
    return found


def _is_hidden(path: Path, root: Path) -> bool:
    return any(part[0] in "._" for part in path.relative_to(root).parts)


def distinct(paths: Iterable[Path]) -> list[Path]:
    """Removes other spellings of the same file, and links to it."""
    found: dict[Path, Path] = {}
    for path in paths:
        found.setdefault(path.resolve(), path)
    return list(found.values())

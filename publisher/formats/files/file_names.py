"""Lists input files; ledger and positions keep their names as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from publisher.errors import UsageError


def refuse_undecodable(paths: Iterable[Path]) -> None:
    """Refuses names with bytes that are not text, which no ledger can store.

    Raises:
        UsageError: A name has such bytes; the message shows the first one.
    """
    for path in paths:
        try:
            str(path.absolute()).encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{path}: the name of the file or of a directory above it has bytes that are not "
                "UTF-8, and ledger keep names as text: rename it"
            ) from None


def list_files(
    paths: Iterable[str | os.PathLike[str]],
    accepts: Callable[[Path], bool] = lambda _path: True,
    refusal: str = "",
) -> list[Path]:
    """Lists files as given, and the files below directories in name order.

    Below directories, it leaves out files that ``accepts`` refuses, and names that begin with ``.`` or ``_``.

    Raises:
        UsageError: A path does not exist, ``accepts`` refuses it, or its name cannot be stored.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            children = sorted(p for p in path.rglob("*") if p.is_file() and not _is_hidden(p, path))
            files += filter(accepts, children)
        elif not path.is_file():
            raise UsageError(_refusal_of(path))
        elif not accepts(path):
            raise UsageError(f"{path}: {refusal}")
        else:
            files.append(path)
    refuse_undecodable(files)
    return files


def _refusal_of(path: Path) -> str:
    if path.exists():
        return f"{path} is a device or a pipe, and input is read more than once: save it to a file first"
    return f"{path} does not exist; name a file or a directory"


def _is_hidden(path: Path, root: Path) -> bool:
    return any(part[0] in "._" for part in path.relative_to(root).parts)


def distinct(paths: Iterable[Path]) -> list[Path]:
    """Removes paths that lead to the same file as an earlier path."""
    by_target: dict[Path, Path] = {}
    for path in paths:
        by_target.setdefault(path.resolve(), path)
    return list(by_target.values())

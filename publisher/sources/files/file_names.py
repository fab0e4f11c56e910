"""Names of input files, which journals and positions keep as text."""

from __future__ import annotations

from collections.abc import Iterable
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


def distinct(paths: Iterable[Path]) -> list[Path]:
    """Removes other spellings of the same file, and links to it."""
    found: dict[Path, Path] = {}
    for path in paths:
        found.setdefault(path.resolve(), path)
    return list(found.values())

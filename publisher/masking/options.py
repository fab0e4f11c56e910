"""The settings of masking, and the method for each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Len


class MaskMethod(Enum):
    """Method that replaces the values of a column; the first one that names a column counts."""

    REDACT = "redact"
    HASH = "hash"
    SHORTEN = "shorten"


_Pattern = Annotated[str, Len(1)]


@dataclass(frozen=True, slots=True)
class MaskingOptions:
    """``[masking]``.

    The table of a pattern is the class, if there is one; attributes of child tables are ``child.column``."""

    hash: tuple[_Pattern, ...] = ()
    """Columns whose values become keyed hashes of 128 bits, as patterns of ``column``,
    ``table.column`` or ``schema.table.column`` in any case. Equal values get equal hashes, in every
    column, so keys and references still fit. The only method for columns of keys."""
    redact: tuple[_Pattern, ...] = ()
    """Columns whose values become ``***``, as patterns like those of ``hash``. It overrides ``hash`` and
    ``shorten``."""
    shorten: tuple[_Pattern, ...] = ()
    """Columns of whose values only the first character remains, as patterns like those of ``hash``."""
    key_env: Annotated[str, Len(1)] = "XDS_MASKING_KEY"
    """Name of the environment variable that holds the key: at least 32 characters, for instance of
    ``openssl rand -hex 32``. All processes need it."""
    key_file: Path | None = None
    """File that holds the key; overrides ``key_env``. All machines of a cluster need it."""
    runs: Literal["masked replays"] | None = None
    """Says that only ``replay --masked`` and ``inspect --masked`` mask values. Without it the job is refused
    by all commands that would publish or show values as they are, such as ``publish``."""

    @property
    def key_place(self) -> str:
        """The place of the key, as messages name it."""
        if self.key_file is not None:
            return f"key_file {self.key_file}"
        return f"environment variable {self.key_env}"

    def patterns(self, method: MaskMethod) -> tuple[str, ...]:
        """The patterns of a method."""
        patterns: tuple[str, ...] = getattr(self, method.value)
        return patterns


def names_match(names: Sequence[str], patterns: Sequence[str], *, without_schema: bool) -> bool:
    """Returns whether a pattern matches one of the names of a column.

    ``without_schema``: the schema of the table is not known, so a pattern with any schema matches."""
    lower = [name.lower() for name in names]
    for pattern in map(str.lower, patterns):
        _, _, rest = pattern.partition(".")
        tried = [pattern, rest] if without_schema and "." in rest else [pattern]
        if any(fnmatchcase(name, each) for each in tried for name in lower):
            return True
    return False

"""Types of columns of replicated tables, such as ``pay DECIMAL(9,2)``, and their sizes in row images.

Docstrings mark what the vendor documents, and what is inferred.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from publisher.model.catalogue import ColumnKind

KINDS = {
    "CHAR": ColumnKind.STRING,
    "SMALLINT": ColumnKind.INT,
    "INTEGER": ColumnKind.INT,
    "BIGINT": ColumnKind.INT,
    "REAL": ColumnKind.STRING,
    "DOUBLE": ColumnKind.STRING,
    "DATE": ColumnKind.TIMESTAMP,
    "DECIMAL": ColumnKind.DECIMAL,
    "BYTE": ColumnKind.OCTET,
    "BLOB": ColumnKind.OCTET,
    "VARCHAR": ColumnKind.STRING,
    "VARBYTE": ColumnKind.OCTET,
    "BOOLEAN": ColumnKind.STATE,
    "NCHAR": ColumnKind.STRING,
    "NVARCHAR": ColumnKind.STRING,
}
"""For each type of a column, the type of its values in documents; with ``date_coding = "raw"`` a DATE is
published as text."""

CODES = {
    1: "CHAR",
    4: "DATE",
    5: "DECIMAL",
    6: "BYTE",
    7: "BLOB",
    8: "VARCHAR",
    9: "VARBYTE",
    10: "BOOLEAN",
    11: "NCHAR",
    12: "NVARCHAR",
}
"""Types by their code in DISPATCH_ATTRS (inferred from the Perl interface); codes 2 and 3 are integers and
floats, whose types depend on the length."""
BY_LENGTH = {
    (2, 2): "SMALLINT",
    (2, 4): "INTEGER",
    (2, 8): "BIGINT",
    (3, 4): "REAL",
    (3, 8): "DOUBLE",
}
"""Types by code and length (4 and 8 bytes documented, 2 bytes inferred)."""

NUMBERS = {
    "SMALLINT": 2,
    "INTEGER": 4,
    "BIGINT": 8,
    "REAL": 4,
    "DOUBLE": 8,
    "DATE": 16,
    "DECIMAL": 16,
}
"""Bytes of types with a fixed size (documented; SMALLINT and DOUBLE inferred)."""
WHOLE = frozenset({"SMALLINT", "INTEGER", "BIGINT"})
VARIABLE = frozenset({"VARCHAR", "VARBYTE", "NVARCHAR"})
"""Types with a length before the value (an assumption: no page documents it)."""
TEXT = frozenset({"CHAR", "VARCHAR"})
NATIONAL = frozenset({"NCHAR", "NVARCHAR"})
"""Types with two bytes per character, UCS-2 (documented)."""
DIGITS, FRACTION = 30, 10
"""Decimal digits of a DECIMAL, and digits after the point (documented)."""

_SYNONYMS = {"CHARACTER": "CHAR", "INT": "INTEGER", "NUMERIC": "DECIMAL"}
_WITH_LENGTH = frozenset(KINDS) - frozenset(NUMBERS)
_COLUMN = re.compile(
    r'\s*(?:"((?:[^"]|"")+)"|([^\s"]+))\s+([A-Za-z]+)\s*'
    r"(?:\(\s*([0-9]{1,5})\s*(?:,\s*([0-9]{1,2})\s*)?\))?\s*"
)


@dataclass(frozen=True, slots=True)
class ImageColumn:
    """One column of a table."""

    name: str
    type: str
    """One of ``KINDS``."""
    length: int = 0
    """Characters of NCHAR and NVARCHAR, digits of a DECIMAL (0: unknown), bytes of other types."""
    scale: int | None = None
    """Digits of a DECIMAL after the point, if known."""

    @property
    def kind(self) -> ColumnKind:
        """Type in documents."""
        return KINDS[self.type]

    @property
    def capacity(self) -> int:
        """Maximum number of bytes of the value."""
        if self.type in NUMBERS:
            return NUMBERS[self.type]
        return self.length * 2 if self.type in NATIONAL else self.length

    @property
    def text(self) -> str:
        """The column as settings and messages write it."""
        quoted = self.name.replace('"', '""')
        name = self.name if re.fullmatch(r'[^\s"]+', self.name) else f'"{quoted}"'
        if not self.length:
            return f"{name} {self.type}"
        scale = "" if self.scale is None else f",{self.scale}"
        return f"{name} {self.type}({self.length}{scale})"


def parse_column(text: str) -> ImageColumn:
    """Parses a column that a setting writes as ``NAME TYPE``.  Raises ``ValueError`` with advice."""
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is not a column; write "NAME TYPE", such as "pay DECIMAL(9,2)"')
    name = match[1].replace('""', '"') if match[1] else match[2]
    kind = match[3].upper()
    kind = _SYNONYMS.get(kind, kind)
    if kind not in KINDS:
        raise ValueError(f"{name}: {match[3]} is not a type; write one of {', '.join(KINDS)}")
    length = int(match[4] or 0)
    scale = None if match[5] is None else int(match[5])
    if kind == "DECIMAL":
        if length > DIGITS or (scale or 0) > FRACTION:
            raise ValueError(
                f"{name}: write DECIMAL(p,s) with p up to {DIGITS}, s up to {FRACTION}"
            )
        return ImageColumn(name, kind, length, (scale or 0) if length else None)
    if scale is not None or (length and kind not in _WITH_LENGTH):
        raise ValueError(f"{name}: {kind} cannot have this length or scale; remove it")
    if kind in _WITH_LENGTH and not length:
        raise ValueError(f"{name}: {kind} needs a length; write {kind}(n)")
    return ImageColumn(name, kind, length, scale)

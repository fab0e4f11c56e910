"""The columns of replicated tables and how wide each is in a row image: ``pay DECIMAL(9,2)``.

Types, codes and sizes are those of the reference, section 2.2; its marks (D documented, I inferred,
R recollected, U unknown) stand beside what is not wholly documented.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from publisher.model.catalogue import Kind

KINDS = {
    "CHAR": Kind.STRING,
    "SMALLINT": Kind.INT,
    "INTEGER": Kind.INT,
    "BIGINT": Kind.INT,
    "REAL": Kind.STRING,
    "DOUBLE": Kind.STRING,
    "DATE": Kind.TIMESTAMP,
    "DECIMAL": Kind.DECIMAL,
    "BYTE": Kind.OCTET,
    "BLOB": Kind.OCTET,
    "VARCHAR": Kind.STRING,
    "VARBYTE": Kind.OCTET,
    "BOOLEAN": Kind.STATE,
    "NCHAR": Kind.STRING,
    "NVARCHAR": Kind.STRING,
}
"""The types, and what they are in a document; a DATE is text where its coding is not known."""

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
"""Types by the code in DISPATCH_ATTRS, which is taken to be that of the Perl interface [I]; 2 and 3 are
whole numbers and floats of any length."""
BY_LENGTH = {
    (2, 2): "SMALLINT",
    (2, 4): "INTEGER",
    (2, 8): "BIGINT",
    (3, 4): "REAL",
    (3, 8): "DOUBLE",
}
"""Codes 2 and 3, told apart by the length [D for 4 and 8 bytes, I for the rest]."""

NUMBERS = {
    "SMALLINT": 2,
    "INTEGER": 4,
    "BIGINT": 8,
    "REAL": 4,
    "DOUBLE": 8,
    "DATE": 16,
    "DECIMAL": 16,
}
"""Bytes of types of one size [D, SMALLINT and DOUBLE I]."""
WHOLE = frozenset({"SMALLINT", "INTEGER", "BIGINT"})
VARIABLE = frozenset({"VARCHAR", "VARBYTE", "NVARCHAR"})
"""Types with a length before the value [R]."""
TEXT = frozenset({"CHAR", "VARCHAR"})
NATIONAL = frozenset({"NCHAR", "NVARCHAR"})
"""Types of two bytes a character, UCS-2 [D]."""
DIGITS, FRACTION = 30, 10
"""Decimal digits of a DECIMAL, and those of them behind the point [D]."""

_SHORT = {"CHARACTER": "CHAR", "INT": "INTEGER", "NUMERIC": "DECIMAL"}
_WITH_LENGTH = frozenset(KINDS) - frozenset(NUMBERS)
_COLUMN = re.compile(
    r'\s*(?:"((?:[^"]|"")+)"|([^\s"]+))\s+([A-Za-z]+)\s*'
    r"(?:\(\s*([0-9]{1,5})\s*(?:,\s*([0-9]{1,2})\s*)?\))?\s*"
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    type: str
    """One of ``KINDS``."""
    length: int = 0
    """Characters of NCHAR and NVARCHAR, digits of a DECIMAL (0: not known), bytes of the others."""
    scale: int | None = None
    """Digits of a DECIMAL after the point, where known."""

    @property
    def kind(self) -> Kind:
        """What it is in a document."""
        return KINDS[self.type]

    @property
    def capacity(self) -> int:
        """Bytes of the value at the most."""
        if self.type in NUMBERS:
            return NUMBERS[self.type]
        return self.length * 2 if self.type in NATIONAL else self.length

    @property
    def text(self) -> str:
        """As settings and messages name it."""
        name = self.name if re.fullmatch(r'[^\s"]+', self.name) else f'"{_doubled(self.name)}"'
        if not self.length:
            return f"{name} {self.type}"
        scale = "" if self.scale is None else f",{self.scale}"
        return f"{name} {self.type}({self.length}{scale})"


def _doubled(name: str) -> str:
    return name.replace('"', '""')


def column_of(text: str) -> Column:
    """The column that a setting writes as ``NAME TYPE``.  Raises ``ValueError``, saying what to write."""
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is no column, write "NAME TYPE" as "pay DECIMAL(9,2)"')
    name = match[1].replace('""', '"') if match[1] else match[2]
    kind = match[3].upper()
    kind = _SHORT.get(kind, kind)
    if kind not in KINDS:
        raise ValueError(f"{name}: {match[3]} is no type, use one of {', '.join(KINDS)}")
    length = int(match[4] or 0)
    scale = None if match[5] is None else int(match[5])
    if kind == "DECIMAL":
        if length > DIGITS or (scale or 0) > FRACTION:
            raise ValueError(
                f"{name}: write DECIMAL(p,s) with p up to {DIGITS}, s up to {FRACTION}"
            )
        return Column(name, kind, length, (scale or 0) if length else None)
    if scale is not None or (length and kind not in _WITH_LENGTH):
        raise ValueError(f"{name}: {kind} has no such length, leave it out")
    if kind in _WITH_LENGTH and not length:
        raise ValueError(f"{name}: {kind} needs its length, write {kind}(n)")
    return Column(name, kind, length, scale)

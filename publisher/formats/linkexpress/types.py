"""Types of items with their lengths, as a definition writes them: ``DECIMAL(9,2)``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from publisher.model.catalogue import ColumnKind

KINDS = {
    "SMALLINT": ColumnKind.INT,
    "INTEGER": ColumnKind.INT,
    "NUMERIC": ColumnKind.DECIMAL,
    "DECIMAL": ColumnKind.DECIMAL,
    "REAL": ColumnKind.STRING,
    "DOUBLE PRECISION": ColumnKind.STRING,
    "CHARACTER": ColumnKind.STRING,
    "CHARACTER VARYING": ColumnKind.STRING,
    "NATIONAL CHARACTER": ColumnKind.STRING,
    "NATIONAL CHARACTER VARYING": ColumnKind.STRING,
    "DATE": ColumnKind.DATE,
    "TIME": ColumnKind.TIME,
    "TIMESTAMP": ColumnKind.TIMESTAMP,
    "INTERVAL": ColumnKind.STRING,
    "BLOB": ColumnKind.OCTET,
}
"""Kinds of values in documents, by the full name of the type."""

_SYNONYMS = {
    "INT": "INTEGER",
    "DEC": "DECIMAL",
    "DOUBLE": "DOUBLE PRECISION",
    "CHAR": "CHARACTER",
    "CHAR VARYING": "CHARACTER VARYING",
    "VARCHAR": "CHARACTER VARYING",
    "NCHAR": "NATIONAL CHARACTER",
    "NATIONAL CHAR": "NATIONAL CHARACTER",
    "NCHAR VARYING": "NATIONAL CHARACTER VARYING",
    "NATIONAL CHAR VARYING": "NATIONAL CHARACTER VARYING",
    "BINARY LARGE OBJECT": "BLOB",
}
_WITH_LENGTH = frozenset(
    {
        "CHARACTER",
        "CHARACTER VARYING",
        "NATIONAL CHARACTER",
        "NATIONAL CHARACTER VARYING",
        "BLOB",
    }
)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")

_ITEM = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s"]+))\s+(.+?)\s*')
_TYPE = re.compile(
    r"([A-Z]+(?: [A-Z]+)*) ?(?:\( ?([0-9]{1,9}) ?([KMG]?) ?(?:, ?([0-9]{1,3}) ?)?\))?"
)
_INTERVAL = re.compile(
    r"INTERVAL ([A-Z]+) ?(?:\( ?([0-9]) ?\))?(?: TO ([A-Z]+) ?(?:\( ?[0-9] ?\))?)?"
)

VARIABLE = frozenset({"CHARACTER VARYING", "NATIONAL CHARACTER VARYING", "BLOB"})
"""Types whose values are not padded to the full length in a LITTLE log, as its documentation says."""
TEXT = frozenset({"CHARACTER", "CHARACTER VARYING"})
NATIONAL = frozenset({"NATIONAL CHARACTER", "NATIONAL CHARACTER VARYING"})


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a record, as in the extraction definition."""

    name: str
    type: str
    """Full name, one of ``KINDS``."""
    length: int = 0
    """Characters, bytes of a BLOB, digits of a number; 0 if the type has no length."""
    scale: int = 0
    """Digits after the decimal point."""
    fields: tuple[str, ...] = ()
    """Fields of an INTERVAL, the greatest first."""

    @property
    def kind(self) -> ColumnKind:
        """The kind of its values in documents."""
        return KINDS[self.type]

    @property
    def text(self) -> str:
        """The item as messages show it."""
        if self.type == "INTERVAL":
            return f"{self.name} INTERVAL {' TO '.join(dict.fromkeys((self.fields[0], self.fields[-1])))}"
        if self.type in ("NUMERIC", "DECIMAL"):
            return f"{self.name} {self.type}({self.length},{self.scale})"
        return (
            f"{self.name} {self.type}({self.length})" if self.length else f"{self.name} {self.type}"
        )


@cache
def parse_item(text: str) -> Item:
    """Parses ``NAME TYPE`` of a setting.  Raises ``ValueError`` with advice."""
    match = _ITEM.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is not an item; write "NAME TYPE", such as "pay DECIMAL(9,2)"')
    name = match[1].replace('""', '"') if match[1] else match[2]
    type_text = " ".join(match[3].upper().split())
    if type_text.startswith("INTERVAL"):
        return _interval(name, type_text)
    parts = _TYPE.fullmatch(type_text)
    kind = _SYNONYMS.get(parts[1], parts[1]) if parts else ""
    if parts is None or kind not in {*KINDS, "FLOAT"} or kind == "INTERVAL":
        hint = " (its form is not documented)" if kind == "BYTEA" else ""
        raise ValueError(
            f"{name}: {match[3]!r} is not a type{hint}; write one of {', '.join(KINDS)}"
        )
    length = int(parts[2] or 0) * _UNITS[parts[3] or ""]
    if parts[2] and not length:
        raise ValueError(f"{name}: {kind}(0) holds nothing; write 1 or more")
    return _build_item(name, kind, length, None if parts[4] is None else int(parts[4]))


def _build_item(name: str, kind: str, length: int, scale: int | None) -> Item:
    if kind == "FLOAT":  # 1 to 23 binary digits are REAL, 24 to 52 DOUBLE PRECISION
        if not 1 <= length <= 52:
            raise ValueError(f"{name}: write FLOAT(1) to FLOAT(52)")
        return Item(name, "REAL" if length < 24 else "DOUBLE PRECISION")
    if kind in ("NUMERIC", "DECIMAL"):
        if not 1 <= length <= 38 or (scale or 0) > length:
            raise ValueError(f"{name}: write {kind}(p,q) with p from 1 to 38, q at most p")
        return Item(name, kind, length, scale or 0)
    if scale is not None or (length and kind not in _WITH_LENGTH):
        raise ValueError(f"{name}: {kind} cannot have this length or scale; remove it")
    if kind in _WITH_LENGTH and not length:
        if kind not in {"CHARACTER", "NATIONAL CHARACTER"}:
            raise ValueError(f"{name}: {kind} needs its defined length; write {kind}(n)")
        length = 1
    return Item(name, kind, length)


def _interval(name: str, type_text: str) -> Item:
    match = _INTERVAL.fullmatch(type_text)
    if match is None or match[1] not in _FIELDS or (match[3] or match[1]) not in _FIELDS:
        raise ValueError(f"{name}: write INTERVAL YEAR(4) TO MONTH, INTERVAL DAY(2) TO SECOND ...")
    first, last = _FIELDS.index(match[1]), _FIELDS.index(match[3] or match[1])
    if last < first or (first < 2) != (last < 2):
        raise ValueError(f"{name}: no interval goes from {match[1]} to {match[3]}")
    if match[2] == "0":
        raise ValueError(f"{name}: {match[1]}(0) holds nothing; write 1 to 9 digits")
    return Item(name, "INTERVAL", int(match[2] or 2), 0, _FIELDS[first : last + 1])

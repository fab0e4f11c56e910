"""Names of tables: bytes of a fixed field in one of LINTER's code pages.

The page of DIRR lets a channel use any page that the database knows, and UTF-8 and UCS2 in any case.
A field is measured in bytes, so a long name may be cut inside a character (reference, 3.2).
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

ByteOrder = Literal["little", "big"]

CUT = "\ufffd"
"""Stands for the character inside which a name was cut."""
_ASCII = bytes(range(0x20, 0x7F))
_OWN = {"utf8": "utf-8", "20127": "ascii"}
_PAGES = re.compile(
    r"utf-8|ascii|(cp|koi8-|iso8859-|mac-|gb|big5|euc_|shift_jis)\w*|kz1048|ptcp154"
)
"""Python's names of code pages; it has codecs of other kinds, too."""
_LONGEST = 64


class Name(NamedTuple):
    """A name, and whether its last character was cut."""

    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class CodePage:
    """How bytes become text."""

    codec: str
    """Python's name of it."""
    unit: int
    """Bytes of the smallest piece: 2 in UCS2, 1 elsewhere."""
    blank: bytes

    def name(self, field: bytes) -> Name:
        """The name in a field: up to the first NUL, without the blanks at its end.

        Raises ``ValueError`` where the bytes are no text of this page; a character that the end of
        the name cuts becomes ``CUT``.
        """
        content = self._content(field)
        decoder = codecs.getincrementaldecoder(self.codec)("strict")
        try:
            text = decoder.decode(content)
        except UnicodeDecodeError as error:
            raise ValueError(f"byte {error.start} of the name is no {self.codec}") from None
        cut = bool(decoder.getstate()[0])
        return Name(text + CUT if cut else text, cut)

    def _content(self, field: bytes) -> bytes:
        whole = len(field) - len(field) % self.unit
        nul = self._nul(field[:whole])
        content = field[:nul]
        if nul == whole and field[whole:].strip(b"\0 "):
            return field  # an odd byte at the end of a full field is half a character
        while content.endswith(self.blank) and len(content) >= self.unit:
            content = content[: -self.unit]
        return content

    def _nul(self, field: bytes) -> int:
        """Where the first NUL character is, the end where there is none."""
        nul, at = bytes(self.unit), field.find(bytes(self.unit))
        while at % self.unit and at >= 0:
            at = field.find(nul, at + 1)
        return at if at >= 0 else len(field)


@lru_cache(maxsize=256)
def code_page_of(name: str, order: ByteOrder) -> CodePage:
    """The code page that LINTER calls ``name``.

    Raises ``ValueError`` where Python has none of this name, or one that does not hold ASCII.
    """
    plain = name.strip().lower().replace("_", "-")
    if plain in ("ucs2", "ucs-2"):
        little = order == "little"
        return CodePage("utf-16-le" if little else "utf-16-be", 2, b" \0" if little else b"\0 ")
    codec = _OWN.get(plain, f"cp{plain}" if plain.isdecimal() else plain)
    try:
        if len(codec) > _LONGEST:
            raise LookupError
        found = codecs.lookup(codec).name
        if not _PAGES.fullmatch(found) or _ASCII.decode(found).encode("ascii") != _ASCII:
            raise LookupError
    except (LookupError, ValueError):
        shown = name if len(name) <= _LONGEST else name[:_LONGEST] + "…"
        raise ValueError(
            f"{shown!r} is no code page that is known; write UTF-8, UCS2, CP866, CP1251, KOI8-R ..."
        ) from None
    return CodePage(found, 1, b" ")

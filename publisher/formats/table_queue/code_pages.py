"""Names of tables: bytes of a fixed field in one of LINTER's code pages.

According to the documentation of DIRR, a channel may use UTF-8, UCS2, or any code page of the database.
The size of a field is in bytes, so a long name may be cut inside a character.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

ByteOrder = Literal["little", "big"]

CUT = "\ufffd"
"""Replaces a last character that is incomplete because the name was cut."""
_ASCII = bytes(range(0x20, 0x7F))
_OWN = {"utf8": "utf-8", "20127": "ascii"}
_PAGES = re.compile(
    r"utf-8|ascii|(cp|koi8-|iso8859-|mac-|gb|big5|euc_|shift_jis)\w*|kz1048|ptcp154"
)
"""Python's names of code pages, as opposed to its other codecs."""
_LONGEST = 64


class TableName(NamedTuple):
    """A name, and whether its last character was cut."""

    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class CodePage:
    """A code page with its blank and the size of its units."""

    codec: str
    """Python's name of the code page."""
    unit: int
    """Bytes per unit: 2 in UCS2, 1 elsewhere."""
    blank: bytes

    def name(self, field: bytes) -> TableName:
        """Decodes the name in a field: the text before the first NUL without trailing blanks.

        An incomplete last character becomes ``CUT``.  Raises ``ValueError`` if the bytes are
        not text in this code page.
        """
        content = self._content(field)
        decoder = codecs.getincrementaldecoder(self.codec)("strict")
        try:
            text = decoder.decode(content)
        except UnicodeDecodeError as error:
            raise ValueError(f"byte {error.start} of the name is not {self.codec}") from None
        cut = bool(decoder.getstate()[0])
        return TableName(text + CUT if cut else text, cut)

    def _content(self, field: bytes) -> bytes:
        even = len(field) - len(field) % self.unit
        nul = self._nul(field[:even])
        content = field[:nul]
        if nul == even and field[even:].strip(b"\0 "):
            return field  # an odd byte at the end of a full field is half a character
        while content.endswith(self.blank) and len(content) >= self.unit:
            content = content[: -self.unit]
        return content

    def _nul(self, field: bytes) -> int:
        """Finds the offset of the first NUL character, or the end of the field."""
        nul, at = bytes(self.unit), field.find(bytes(self.unit))
        while at % self.unit and at >= 0:
            at = field.find(nul, at + 1)
        return at if at >= 0 else len(field)


@lru_cache(maxsize=256)
def code_page_of(name: str, order: ByteOrder) -> CodePage:
    """Finds the code page with this name in LINTER.

    Raises ``ValueError`` if Python has no such code page, or if the page does not contain ASCII.
    """
    plain = name.strip().lower().replace("_", "-")
    if plain in ("ucs2", "ucs-2"):
        little = order == "little"
        return CodePage("utf-16-le" if little else "utf-16-be", 2, b" \0" if little else b"\0 ")
    codec = _OWN.get(plain, f"cp{plain}" if plain.isdecimal() else plain)
    try:
        if len(codec) > _LONGEST:
            raise LookupError
        name_in_python = codecs.lookup(codec).name
        is_page = _PAGES.fullmatch(name_in_python)
        if not is_page or _ASCII.decode(name_in_python).encode("ascii") != _ASCII:
            raise LookupError
    except (LookupError, ValueError):
        excerpt = name if len(name) <= _LONGEST else name[:_LONGEST] + "…"
        raise ValueError(
            f"{excerpt!r} is not a known code page; write UTF-8, UCS2, CP866, CP1251, KOI8-R ..."
        ) from None
    return CodePage(name_in_python, 1, b" ")

"""Character codes: their names in settings, and two Japanese codes that Python lacks.

``eucJP-ms`` and ``CP51932`` are EUC-JP with the characters of vendors, as on Solaris, Linux and Windows.
Both read the characters of JIS X 0208 as code page 932 does (A1C1 is U+FF5E), and row 13 as the special
characters of NEC.  Beyond these they differ:

================== ============================================ ====================================
bytes              eucJP-ms                                     CP51932
================== ============================================ ====================================
F5A1-FEFE          user-defined characters, U+E000-U+E3AB       rows 89 to 92 (F9A1-FCFE): characters
                                                                of IBM that NEC selected; else none
8FA1A1-8FF2FE      JIS X 0212                                   none
8FF3F3-8FF4FE      characters of IBM that JIS X 0212 lacks      none
8FF5A1-8FFEFE      user-defined characters, U+E3AC-U+E757       none
================== ============================================ ====================================

Sources: the Open Group's and JVC's eucJP-ms as in the GNU C library (``EUC-JP-MS``) and Oracle's page
eucJP(5); the registration of CP51932 with IANA.  Everything is derived from Python's tables of EUC-JP and
of code page 932, which has the characters of IBM in the same order.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Codecs of Python that decode bytes but are not character codes."""
_CELLS = range(1, 95)
_NEC_ROW, _NEC_SELECTED, _USER_ROWS, _IBM_ROWS = 13, range(89, 93), range(85, 95), range(115, 120)
_USER_DEFINED = 0xE000
_SS3 = b"\x8f"
_AS_CP932 = str.maketrans("〜‖−¢£¬¦", "～∥－￠￡￢￤")
"""Characters that Python's EUC-JP decodes differently from code page 932."""
_TILDE = b"\x8f\xa2\xb7"
_WIDE_TILDE = "\uff5e"
"""The tilde of JIS X 0212: Python decodes it as the ASCII tilde, eucJP-ms as the wide tilde."""


def find_codec(charset: str) -> str:
    """Returns Python's name of a character code.  Raises ``LookupError`` for any other name."""
    try:
        name = codecs.lookup(charset).name
        # raises LookupError for codecs that decode no text, such as rot13
        b"a".decode(name, "replace")
    except (UnicodeError, ValueError):
        raise LookupError(charset) from None
    if name.replace("_", "-") in _NO_CHARSETS:
        raise LookupError(charset)
    return name


def _in_cp932(row: int, cell: int) -> str | None:
    """Returns the character of a row and cell in code page 932."""
    lead = (row - 1) // 2 + (0x81 if row < 63 else 0xC1)
    trail = cell + 0x9E if row % 2 == 0 else cell + 0x3F + (cell >= 64)
    try:
        return bytes([lead, trail]).decode("cp932")
    except UnicodeDecodeError:
        return None


def _is_in_jis_x_0212(char: str) -> bool:
    try:
        return char.encode("euc_jp").startswith(_SS3)
    except UnicodeEncodeError:
        return False


def _rows(rows: range) -> dict[bytes, str]:
    """Maps bytes in EUC to the characters of some rows of code page 932."""
    places = ((row, cell, _in_cp932(row, cell)) for row in rows for cell in _CELLS)
    return {bytes([0xA0 + row, 0xA0 + cell]): char for row, cell, char in places if char}


def _user_characters(prefix: bytes, first: int) -> dict[bytes, str]:
    places = ((0xA0 + row, 0xA0 + cell) for row in _USER_ROWS for cell in _CELLS)
    return {prefix + bytes(place): chr(first + n) for n, place in enumerate(places)}


def _ibm_characters() -> dict[bytes, str]:
    """Maps bytes to the characters of IBM that JIS X 0212 lacks, and to ``№``, which it has.

    Three characters that other rows contain are omitted."""
    chars = (_in_cp932(row, cell) for row in _IBM_ROWS for cell in _CELLS)
    ibm_chars = (
        c for c in chars if c and c not in "￢￤∵" and (c == "№" or not _is_in_jis_x_0212(c))
    )
    places = chain(
        ((0xF3, 0xA0 + cell) for cell in range(83, 95)), ((0xF4, 0xA0 + cell) for cell in _CELLS)
    )
    return {_SS3 + bytes(place): char for place, char in zip(places, ibm_chars, strict=True)}


@cache
def _vendor_chars(name: str) -> Mapping[bytes, str]:
    """Maps bytes to the characters that Python's EUC-JP lacks."""
    nec = _rows(range(_NEC_ROW, _NEC_ROW + 1))
    if name == "cp51932":
        return nec | _rows(_NEC_SELECTED)
    rows = len(_USER_ROWS) * len(_CELLS)
    user = _user_characters(b"", _USER_DEFINED) | _user_characters(_SS3, _USER_DEFINED + rows)
    return nec | user | _ibm_characters()


@cache
def _handler(name: str, errors: str) -> str:
    """Registers an error handler that decodes the vendors' characters and leaves others to ``errors``."""
    chars, otherwise = _vendor_chars(name), codecs.lookup_error(errors)

    def handle(problem: UnicodeError) -> tuple[str | bytes, int]:
        if isinstance(problem, UnicodeDecodeError):
            at = problem.start
            for end in (at + 2, at + 3):
                char = chars.get(problem.object[at:end])
                if char is not None:
                    return char, end
        return otherwise(problem)

    registered = f"{name}.{errors}"
    codecs.register_error(registered, handle)
    return registered


def _decode(name: str, data: bytes, errors: str) -> str:
    handler = _handler(name, errors)
    if name == "eucjp-ms":
        return _WIDE_TILDE.join(_decode_piece(piece, handler) for piece in data.split(_TILDE))
    first, *pieces = data.split(_SS3)
    texts, at = [_decode_piece(first, handler)], len(first)
    for piece in pieces:
        problem = UnicodeDecodeError(name, data, at, at + 1, "CP51932 has no JIS X 0212")
        texts += [str(codecs.lookup_error(errors)(problem)[0]), _decode_piece(piece, handler)]
        at += 1 + len(piece)
    return "".join(texts)


def _decode_piece(piece: bytes, handler: str) -> str:
    return piece.decode("euc_jp", handler).translate(_AS_CP932)


def _count_complete(data: bytes) -> int:
    """Counts the bytes up to the end of the last complete character."""
    at = len(data)
    while at and data[at - 1] >= 0x80:
        at -= 1
    while at < len(data):
        size = 3 if data[at] == 0x8F else 2 if data[at] == 0x8E or 0xA0 < data[at] < 0xFF else 1
        trail = data[at + 1 : at + size]
        if all(0xA0 < byte < 0xFF for byte in trail):
            if len(trail) < size - 1:
                break
            at += size
        else:
            at += 1
    return at


def _codec(name: str) -> codecs.CodecInfo:
    def decode(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
        raw = bytes(data)
        return _decode(name, raw, errors), len(raw)

    class Decoder(codecs.BufferedIncrementalDecoder):
        """Decodes a text piece by piece."""

        def _buffer_decode(self, input: Buffer, errors: str, final: bool) -> tuple[str, int]:  # noqa: A002
            raw = bytes(input)
            size = len(raw) if final else _count_complete(raw)
            return _decode(name, raw[:size], errors), size

    # the program writes nothing in these codes
    encode = codecs.lookup("ascii").encode
    return codecs.CodecInfo(encode, decode, name=name, incrementaldecoder=Decoder)


_CODECS = {"eucjpms": "eucjp-ms", "eucjpopen": "eucjp-ms", "cp51932": "cp51932"}
"""Names of the two codes in letters and digits."""


def _search(name: str) -> codecs.CodecInfo | None:
    codec_name = _CODECS.get("".join(filter(str.isalnum, name)).lower())
    return None if codec_name is None else _codec(codec_name)


codecs.register(_search)

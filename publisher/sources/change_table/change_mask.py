"""``change_mask``: which columns a change record speaks of.

Bit N stands for the column with ordinal N in the change table, counted from 0, header columns
included (manual, change_mask).  Bytes of zeros may be left out: trailing ones where byte 0 comes first,
leading ones where the most significant byte does.
"""

from __future__ import annotations

import re
from typing import Literal

Order = Literal["msb", "lsb"]

_HEX = re.compile(r"(?:0[xX]|\\x)?([0-9A-Fa-f]*)").fullmatch


class MaskProblem(ValueError):  # noqa: N818 -- becomes a reject, not an error
    """A mask that cannot be read; the message ends with what to do."""


def bits_of(mask: str, order: Order) -> int:
    """The bits of a mask in hex as one integer: bit N of it is bit N of the mask.

    An odd number of digits has lost a leading zero, which only the most significant byte first can
    do without.  Raises ``MaskProblem``.
    """
    found = _HEX(mask.strip())
    if found is None:
        raise MaskProblem(f"change_mask {_short(mask)} is no hex text; export it as hex")
    digits = found[1]
    if order == "msb":
        return int(digits or "0", 16)
    if len(digits) % 2:
        raise MaskProblem(
            f"change_mask {_short(mask)} has an odd number of digits, and byte 0 comes first;"
            " export masks as text, not as numbers"
        )
    return int.from_bytes(bytes.fromhex(digits), "little")


def mask_of(bits: int, order: Order, width: int = 0) -> str:
    """The mask in hex, without bytes of zeros beyond ``width`` bytes: the inverse of ``bits_of``."""
    size = max(width, (bits.bit_length() + 7) // 8)
    return bits.to_bytes(size, "big" if order == "msb" else "little").hex().upper()


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")

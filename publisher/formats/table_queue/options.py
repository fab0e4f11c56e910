"""Settings for reading samples of the table queue.

Everything that the page of DIRR leaves open is a setting.  Its default is the likely value, but settings
whose wrong value would silently give wrong tables have no default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le, Len

from publisher.errors import OptionProblem, refuse_options
from publisher.formats.table_queue.code_pages import ByteOrder, code_page_of

NORMAL, SMALLBUFKOR, EORR = "NORMAL", "SMALLBUFKOR", "EORR"
"""Completion codes of DIRR: an element (0), a buffer that is too small, no element with this ordinal."""


@dataclass(frozen=True, slots=True)
class TableQueueOptions:
    """``[table_queue]``: the layout of DIRR_OUT, and the meaning of its numbers."""

    long_bytes: Literal[4, 8] = 4
    """Bytes of L_LONG, the type of Owner."""
    identifier_length: Annotated[int, Ge(1), Le(1024)] = 66
    """Bytes of TblName (MAX_ID_LEN); with the default values a DIRR_OUT record has 72 bytes."""
    byte_order: ByteOrder = "little"
    """Byte order of Owner, UpdFlag and UCS2 names: the byte order of the recording machine."""
    code_page: Annotated[str, Len(1)] | None = None
    """Code page of TblName in samples that name none: UTF-8, UCS2, CP866, CP1251, KOI8-R and
    others."""
    smallbufkor: int | None = None
    """Number of the completion code SMALLBUFKOR; needed only if samples have numbers without
    names."""
    eorr: int | None = None
    """Number of the completion code EORR; needed only if samples have numbers without names."""
    recorded: Literal["all", "elements"] = "all"
    """Recorded calls: ``all`` calls of a sweep including its last one (EORR), so that incomplete
    sweeps are detected and left out, or only calls that returned ``elements``."""
    owners: Mapping[int, Annotated[str, Len(1)]] = field(default_factory=dict)
    """Names of schemas by the number of the owner, as in $$$USR."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` if settings contradict each other."""
        problems: list[OptionProblem] = []
        if self.code_page is not None:
            try:
                code_page_of(self.code_page, self.byte_order)
            except ValueError as error:
                problems.append(OptionProblem("code_page", str(error)))
        numbers = [n for n in (0, self.smallbufkor, self.eorr) if n is not None]
        if len(set(numbers)) < len(numbers):
            text = "two completion codes have the same number; give each its own"
            problems.append(OptionProblem("eorr", text))
        refuse_options(problems)

    def numbers(self) -> dict[int, str]:
        """Returns the completion codes with known numbers, by number."""
        codes = {NORMAL: 0, SMALLBUFKOR: self.smallbufkor, EORR: self.eorr}
        return {number: name for name, number in codes.items() if number is not None}

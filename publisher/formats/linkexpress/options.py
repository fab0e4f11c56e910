"""Options of extraction data files.

The program follows the manuals.  Points that they leave open are settings: with the likely value as default,
or without default if a wrong guess could silently give wrong rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, Len

from publisher.errors import OptionProblem, refuse_options
from publisher.formats.columns.charsets import find_codec
from publisher.formats.columns.each_text import find_declaration_problems, parse_each
from publisher.formats.linkexpress.types import NATIONAL, TEXT, VARIABLE, Item, parse_item
from publisher.model.catalogue import Table
from publisher.model.keys import IdentifierCase

GREATEST_XID = 32767
LogType = Literal["NORMAL", "LITTLE"]
ByteOrder = Literal["big", "little"]

_UCS2 = {"ucs-2": "utf-16-be", "ucs-2be": "utf-16-be", "ucs-2le": "utf-16-le"}


@dataclass(frozen=True, slots=True)
class ExtractedTable:
    """One table of the file: ``[[sources.tables]]``."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    name: Annotated[str, Len(1)]
    """Name of the table in keys and documents."""
    items: Annotated[tuple[str, ...], Len(1)]
    """Items in the order of the extraction definition, each as ``NAME TYPE``."""
    key: Annotated[tuple[str, ...], Len(1)]
    """Items of the primary key in its order; the file does not mark them."""
    schema: str | None = None
    """Schema of the table."""
    logtype: LogType = "NORMAL"
    """LOGTYPE of the extraction definition: variable items have their defined length (``NORMAL``)
    or their effective length (``LITTLE``). It is unrelated to the byte order."""
    xid: Annotated[int, Ge(1), Le(GREATEST_XID)] | None = None
    """Extraction identifier of the table in difference files of a group."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for wrong items or a wrong key."""
        names = [item.name for item in self.parse_items()]
        refuse_options(find_declaration_problems("items", "an item", names, self.key))

    def parse_items(self) -> tuple[Item, ...]:
        """Parses the items."""
        return parse_each("items", self.items, parse_item)

    @property
    def varies(self) -> bool:
        """True if the records differ in length."""
        return self.logtype == "LITTLE" and any(
            item.type in VARIABLE for item in self.parse_items()
        )

    def definition(self, schema: str | None = None) -> Table:
        """Describes the table; ``schema`` applies if the table's settings name none."""
        kinds = {item.name: item.kind for item in self.parse_items()}
        return Table(self.schema or schema, self.name, self.key, kinds)


@dataclass(frozen=True, slots=True)
class LinkexpressOptions:
    """Options for reading Linkexpress files."""

    unit: Literal["table", "group"]
    """Extracted unit: a table (``lxextdb -r``) or a group of tables (``lxextdb -g``)."""
    extract: Literal["all", "diff"]
    """Kind of extract: everything (``lxextdb -m all``) or the differences (``lxextdb -m diff``)."""
    nulls: bool
    """Records have NULL areas (NULLIND of the definition, or of the group's definition)."""
    tables: Annotated[tuple[ExtractedTable, ...], Len(1)]
    """Tables of the file: one, or those of a group whose differences are read."""
    difftype: Literal["OPEN", "JNL"] | None = None
    """DIFFTYPE of a table's definition; leave it out for a group."""
    byte_order: Literal["auto", "big", "little"] = "auto"
    """Byte order of numbers and lengths; ``auto`` inspects each file and asks for the setting if
    the file is ambiguous."""
    charset: str | None = None
    """Character code of CHARACTER items (OUTCODE of the definition): EUC-JP, CP932, UTF-8 and
    others. For vendor characters in EUC write eucJP-ms (Solaris, Linux) or CP51932 (Windows)."""
    national_charset: str | None = None
    """Character code of NATIONAL CHARACTER items: EUC-JP, CP932, UCS-2, UCS-2LE, UTF-8 and
    others."""
    national_width: Annotated[int, Ge(1), Le(4)] | None = None
    """Bytes of one national character; 2 by default. Set it for UTF-8, where no manual documents
    it."""
    national_length: Literal["characters", "bytes"] = "characters"
    """Unit of the length word of NATIONAL CHARACTER VARYING."""
    trim_padding: bool = True
    """Remove blanks from the end of CHARACTER values."""
    numeric_sign: Literal["leading", "trailing", "overpunched"] = "leading"
    """Sign of NUMERIC: a character before or after the digits, or overpunched in the last digit."""
    interval_leading: Literal[1, 2, 4] | None = None
    """Bytes of the leading field of INTERVAL items; by default from its precision: 1 byte up to 2
    digits, 2 up to 4, 4 up to 9."""
    blob_head: Literal[4, 8] | None = None
    """Bytes before the data of a BLOB in a LITTLE log; required there, since no manual documents
    it."""
    little_null: Literal["length word", "absent"] = "length word"
    """Bytes of a NULL of variable length in a LITTLE log: its length word, or nothing
    (``absent``)."""
    null_flags: Literal["strict", "lenient"] = "strict"
    """Accepted values in NULL areas: ``strict`` takes only 0000 and FFFF, ``lenient`` takes
    everything but 0000 as NULL."""
    schema: str | None = None
    """Schema of tables that name none."""
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    """Case of table, schema and column names in keys and documents."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for options that contradict each other or are missing."""
        refuse_options([*self._layout_problems(), *self._item_problems()])

    def _layout_problems(self) -> Iterator[OptionProblem]:
        diff_of_group = self.unit == "group" and self.extract == "diff"
        if self.unit == "table" and self.difftype is None:
            yield OptionProblem(
                "difftype", 'is required for a table, write "OPEN" or "JNL" as its definition does'
            )
        if self.unit == "group" and self.difftype is not None:
            yield OptionProblem(
                "difftype", "the records of a group have one form with any DIFFTYPE; leave it out"
            )
        if self.difftype == "JNL" and not self.nulls:
            yield OptionProblem(
                "nulls",
                "no manual describes JNL without NULL areas; write true, or extract as OPEN",
            )
        if not diff_of_group and len(self.tables) > 1:
            yield OptionProblem(
                "tables", "files of this extract have one table; write a source for each table"
            )
        if diff_of_group:
            xids = [table.xid for table in self.tables]
            if None in xids or len(set(xids)) < len(xids):
                yield OptionProblem(
                    "tables",
                    "each table of a group needs an xid of its own; set its extraction identifier",
                )

    def _item_problems(self) -> Iterator[OptionProblem]:
        items = [(table, item) for table in self.tables for item in table.parse_items()]
        kinds = {item.type for _, item in items}
        if kinds & TEXT and self.charset is None:
            yield OptionProblem(
                "charset",
                'is required for CHARACTER items; write "EUC-JP", "CP932" or another code',
            )
        if kinds & NATIONAL and self.national_charset is None:
            yield OptionProblem(
                "national_charset",
                'is required for NATIONAL CHARACTER items; write "UCS-2", "EUC-JP" or another code',
            )
        yield from self._charset_problems(kinds)
        for table, item in items:
            if item.type == "BLOB" and table.logtype == "LITTLE" and not self.blob_head:
                yield OptionProblem(
                    "blob_head", f"is required for {item.name} in a LITTLE log; write 8 or 4"
                )

    def _charset_problems(self, kinds: set[str]) -> Iterator[OptionProblem]:
        unknown = set()
        for name in ("charset", "national_charset"):
            try:
                codec_of(getattr(self, name) or "utf-8")
            except ValueError as error:
                unknown.add(name)
                yield OptionProblem(name, f"{error}")
        named = self.national_charset and "national_charset" not in unknown
        if named and self.national_codec == "utf-8" and not self.national_width:
            yield OptionProblem(
                "national_width", "is required with UTF-8; write the bytes of one character"
            )
        coded = [] if "charset" in unknown else sorted(kinds & _FORMED_BY_CODE)
        if coded and bytes(range(0x20, 0x7F)).decode(self.codec, "replace") != _ASCII:
            yield OptionProblem(
                "charset",
                f"{self.charset} does not contain ASCII, and no manual documents the form of"
                f" {', '.join(coded)} in it; extract with another OUTCODE",
            )

    @property
    def codec(self) -> str:
        """Python's name of ``charset``."""
        return codec_of(self.charset or "utf-8")

    @property
    def national_codec(self) -> str:
        """Python's name of ``national_charset``."""
        return codec_of(self.national_charset or "ucs-2")

    @property
    def bytes_of_national(self) -> int:
        """Bytes of one national character."""
        return self.national_width or 2


_FORMED_BY_CODE = frozenset({"NUMERIC", "INTERVAL", "REAL", "DOUBLE PRECISION"})
"""Types whose bytes depend on OUTCODE: it encodes signs and digits, and with the code of a mainframe the
floats may be those of the mainframe, too."""
_ASCII = bytes(range(0x20, 0x7F)).decode("ascii")


def codec_of(charset: str) -> str:
    """Returns Python's name of a character code.  Raises ``ValueError`` if Python has no codec for it."""
    name = _UCS2.get(charset.lower().replace("_", "-").replace("ucs2", "ucs-2"), charset)
    try:
        codec = find_codec(name)
    except LookupError:
        raise ValueError(
            f"no codec is known for {charset!r}; extract with OUTCODE of EUC, Shift-JIS or Unicode,"
            " and write EUC-JP, eucJP-ms, CP51932, CP932, UTF-8 or UCS-2"
        ) from None
    if codec in ("utf-16", "utf-32"):
        raise ValueError(f"{charset} names no byte order; write UCS-2 (big-endian) or UCS-2LE")
    return codec


__all__ = [
    "GREATEST_XID",
    "ByteOrder",
    "ExtractedTable",
    "LinkexpressOptions",
    "LogType",
    "codec_of",
]

"""Settings for reading an export of DISPATCH_QUEUE.

The program follows the vendor's page.  Conclusions from the page are defaults of settings; settings for
unknown properties have no default and are required where they matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from annotated_types import Ge, Le, Len

from publisher.errors import OptionProblem, refuse_options
from publisher.formats.columns.charsets import find_codec
from publisher.formats.columns.each_text import find_declaration_problems, parse_each
from publisher.formats.dispatch_queue.images.column_types import (
    NATIONAL,
    TEXT,
    VARIABLE,
    ImageColumn,
    parse_column,
)
from publisher.formats.dispatch_queue.rows.layout import ByteOrder
from publisher.model.catalogue import ColumnKind
from publisher.model.keys import IdentifierCase
from publisher.xds.times import zone_problems

Name = Annotated[str, Len(1)]
NullMode = Literal["none", "byte_before", "byte_after", "bitmap_prefix", "bitmap_suffix"]


@dataclass(frozen=True, slots=True)
class QueueTable:
    """One replicated table: ``[[sources.tables]]``."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    number: int
    """Number of the table at the source (TABNUM_SRC)."""
    node: Name | None = None
    """Database (DBNODE) in which the number is valid; by default every database that no other entry
    names."""
    name: Name | None = None
    """Name of the table in keys and documents; by default the name at the destination
    (DST_TABLE)."""
    schema: Name | None = None
    """Schema of the table; by default the owner at the destination (DST_OWNER), if the name is also
    the destination's."""
    columns: tuple[Name, ...] = ()
    """Columns in the order of the row image, each as ``NAME TYPE``; by default those of
    ``attributes``."""
    key: tuple[Name, ...] = ()
    """Columns of the primary key; by default those of ``attributes``."""
    numbers: tuple[Annotated[int, Ge(1), Le(255)], ...] = ()
    """Column numbers (ATRNUM), by which BLOBATR names a column; by default 1, 2, 3 and so on."""
    offsets: tuple[Annotated[int, Ge(0)], ...] = ()
    """Offset of each column's value in the row image; by default each value follows the previous
    one."""
    image_length: Annotated[int, Ge(1)] | None = None
    """Bytes of a row image that is known to end with filler; by default the length of its columns.
    Filler must be all 00 or all 20; with ``offsets`` it is not checked."""
    image_charset: str | None = None
    """Overrides ``image_charset`` of the source."""
    charsets: dict[str, str] | None = None
    """Character codes of single columns by name."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for wrong columns, key, numbers or offsets."""
        names = [column.name for column in self.parse_columns()]
        problems = find_declaration_problems("columns", "a column", names, self.key)
        for setting in ("numbers", "offsets"):
            values = getattr(self, setting)
            if values and (len(values) != len(names) or len(set(values)) < len(values)):
                text = f"write a different number for each of the {len(names)} columns"
                problems.append(OptionProblem(setting, text))
        refuse_options(problems)

    @property
    def who(self) -> str:
        """Name of the table in messages."""
        return f"table {self.number}" + (f" of {self.node}" if self.node else "")

    def parse_columns(self) -> tuple[ImageColumn, ...]:
        """Parses ``columns``.  Raises ``OptionsError``."""
        return parse_each("columns", self.columns, parse_column)


@dataclass(frozen=True, slots=True)
class DispatchQueueOptions:
    """``[[sources]]`` with the format ``dispatch-queue``."""

    layout: Literal["auto", "binary", "text"] = "auto"
    """Form of the files: binary rows or delimited text. ``auto`` treats ``.csv``, ``.tsv`` and
    ``.txt`` files as text."""
    row_stride: Literal["auto", 3596, 3600] = "auto"
    """Bytes from one row to the next in binary files; ``auto`` inspects each file."""
    byte_order: ByteOrder = "little"
    """Byte order of integers in binary rows: the byte order of the server's machine."""
    time_zone: str | None = None
    """IANA name of the time zone of OPER_DATE. The vendor documents none, so changes carry no time
    without it."""
    charset: str | None = None
    """Character code of DBNODE and DST_* in binary rows; without it they may contain ASCII only."""
    parts: Literal["auto", "totals", "per-part"] = "auto"
    """Meaning of LEN1 and LEN2 in an operation of several rows: the whole operation (``totals``) or
    the row's own part (``per-part``). ``auto`` decides once per file."""
    nodes: tuple[Name, ...] = ()
    """Databases (DBNODE) whose operations are published; all if empty."""
    destination: Name | None = None
    """Destination server whose operations are published; without it each operation is published
    once, after a check that the copies for all destinations are equal."""
    attributes: Path | None = None
    """Delimited export of DISPATCH_ATTRS, which describes the columns of the replicated tables."""
    tables: tuple[QueueTable, ...] = ()
    """Descriptions of replicated tables, in addition to ``attributes`` or instead of it."""
    record: Literal["fixed", "sequential"] = "fixed"
    """Layout of row images: each column takes its declared maximum (``fixed``), or a variable one
    its own length (``sequential``)."""
    null_mode: NullMode | None = None
    """Marking of NULL in row images. No vendor page documents it, so there is no default."""
    null_flag: Annotated[int, Ge(1), Le(255)] | None = None
    """Value of the flag byte that marks NULL, for ``byte_before`` and ``byte_after``. There is no
    default."""
    null_bits: Literal["lsb", "msb"] | None = None
    """Bit of a NULL bitmap that belongs to the first column: the least (``lsb``) or the most
    significant (``msb``). A set bit means NULL. There is no default."""
    image_byte_order: ByteOrder = "little"
    """Byte order of numbers in row images: the byte order of the source's machine."""
    image_charset: str | None = None
    """Character code of CHAR and VARCHAR in row images: the code of the source's tables. There
    is no default."""
    nchar_order: ByteOrder | None = None
    """Byte order of NCHAR and NVARCHAR in row images. There is no default."""
    length_bytes: Literal[1, 2, 4] = 2
    """Bytes of the length before a value of variable length."""
    length_counted: bool | None = None
    """LEN of ``attributes`` includes the bytes of the length before a value. There is no default."""
    decimal_coding: Literal["bcd", "base100"] = "bcd"
    """Coding of a DECIMAL byte: two half bytes of one digit each (``bcd``), or a number below 100
    (``base100``)."""
    date_coding: Literal["raw", "decimal_ticks"] = "raw"
    """Coding of DATE: its 16 bytes in hex (``raw``), or a DECIMAL of ticks since 0001-01-01
    (``decimal_ticks``)."""
    ticks_per_second: Annotated[int, Ge(1), Le(1_000_000)] = 100
    """Ticks per second of a DATE with ``decimal_ticks``."""
    boolean_true: Annotated[str, Len(2, 20)] | None = None
    """Bytes of a true BOOLEAN, in hex. There is no default."""
    boolean_false: Annotated[str, Len(2, 20)] | None = None
    """Bytes of a false BOOLEAN, in hex. There is no default."""
    trim_padding: bool = True
    """Remove blanks from the end of CHAR values, and wide blanks from the end of NCHAR values."""
    update: Literal["changed", "replaced", "query-back"] = "changed"
    """Result of an UPDATE: event type 2 with the columns that differ, event type 3 with these, or
    event type 6."""
    key_change: Literal["delete-and-add", "modify-association"] = "delete-and-add"
    """Result of an UPDATE of the key: a delete and an add, or a ``<modify-association>`` and a modify of
    the other columns that differ (the input is then read twice more)."""
    blobs: Literal["query-back", "ignore"] = "query-back"
    """Result of operations on a BLOB: event type 8 for its column, or nothing."""
    schema: str | None = None
    """Schema of tables that the settings name without one."""
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    """Case of table, schema and column names in keys and documents."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for options that contradict each other or are missing."""
        # with an attributes file the tables are checked once it is read
        tables = self._table_problems() if self.attributes is None else ()
        refuse_options(first_of_each([*self._problems(), *tables]))

    def _problems(self) -> Iterator[OptionProblem]:
        if self.time_zone is not None:
            yield from zone_problems(self.time_zone)
        for name in ("charset", "image_charset"):
            yield from _charset_problem(name, getattr(self, name))
        for name in ("boolean_true", "boolean_false"):
            try:
                bytes.fromhex(getattr(self, name) or "")
            except ValueError:
                yield OptionProblem(name, 'write bytes in hex, as "01"')
        numbers = [(table.node, table.number) for table in self.tables]
        if len(set(numbers)) < len(numbers):
            yield OptionProblem(
                "tables", "a number appears twice for one node; keep one entry for each table"
            )

    def _table_problems(self) -> Iterator[OptionProblem]:
        """Yields problems of row images and their tables."""
        for table in self.tables:
            columns = table.parse_columns()
            if not columns:
                continue
            yield from _image_problems(self, table, columns)
            for charset in (table.charsets or {}).values():
                yield from _charset_problem("charsets", charset)

    def table(self, node: str, number: int) -> QueueTable | None:
        """Returns the entry of a database's table, or ``None``."""
        entries = [table for table in self.tables if table.number == number]
        of_node = [table for table in entries if table.node == node]
        return next(iter(of_node or [table for table in entries if table.node is None]), None)

    def of_table(self, table: QueueTable) -> DispatchQueueOptions:
        """Returns the options with the table's ``image_charset``, and without tables."""
        charset = self.image_charset if table.image_charset is None else table.image_charset
        return replace(self, tables=(), image_charset=charset)

    @property
    def joins_keys(self) -> bool:
        """True if changes of keys are published, so that the keys of an object must share a lane."""
        return self.key_change == "modify-association"

    @property
    def codec(self) -> str:
        """Python's name of ``charset``."""
        return find_codec(self.charset or "ascii")

    def kind_of(self, column: ImageColumn) -> ColumnKind:
        """Returns the type of a column in documents."""
        if column.type == "DATE" and self.date_coding == "raw":
            return ColumnKind.STRING
        return column.kind


def _charset_problem(name: str, charset: str | None) -> Iterator[OptionProblem]:
    try:
        find_codec(charset or "ascii")
    except LookupError:
        yield OptionProblem(
            name,
            f"{charset} is not a known character code; write cp866, cp1251, koi8-r, utf-8 ...",
        )


def _image_problems(
    options: DispatchQueueOptions, table: QueueTable, columns: tuple[ImageColumn, ...]
) -> Iterator[OptionProblem]:
    """Yields problems of a table: options that its row images lack, and options that contradict each
    other."""
    kinds = {column.type for column in columns}
    who = table.who
    if not table.key:
        yield OptionProblem("tables", f"{who} needs key, the columns of its primary key")
    yield from _null_problems(options, who)
    if options.record == "sequential" and table.offsets:
        yield OptionProblem(
            "tables", f"{who} has offsets, but a sequential record has none; keep one of the two"
        )
    if options.null_mode == "byte_before" and 0 in table.offsets:
        text = f"{who} has the offset 0, but byte_before has a byte before it; fix one of the two"
        yield OptionProblem("tables", text)
    yield from _charset_problem("image_charset", table.image_charset)
    coded = {c.name for c in columns if c.type in TEXT} - set(table.charsets or ())
    if coded and not (table.image_charset or options.image_charset):
        text = f'is required for CHAR and VARCHAR of {who}, as "cp866" or "cp1251"'
        yield OptionProblem("image_charset", text)
    if kinds & NATIONAL and options.nchar_order is None:
        text = f'is required for NCHAR of {who}, write "little" or "big"'
        yield OptionProblem("nchar_order", text)
    if "BOOLEAN" in kinds and not (options.boolean_true and options.boolean_false):
        text = f"is required with boolean_false for BOOLEAN of {who}, bytes in hex"
        yield OptionProblem("boolean_true", text)


def _null_problems(options: DispatchQueueOptions, who: str) -> Iterator[OptionProblem]:
    """Yields problems of the options that say how the row images of a table mark NULL."""
    mode = options.null_mode
    if mode is None:
        modes = ", ".join(f'"{name}"' for name in get_args(NullMode))
        yield OptionProblem(
            "null_mode",
            f"is required for the images of {who}, since no page documents it; write one of {modes}",
        )
    elif mode.startswith("byte") and options.null_flag is None:
        yield OptionProblem(
            "null_flag",
            f"is required with null_mode of {who}, the byte that marks NULL, as 1 or 255",
        )
    elif mode.startswith("bitmap") and options.null_bits is None:
        yield OptionProblem(
            "null_bits", f'is required with null_mode of {who}, write "lsb" or "msb"'
        )


def first_of_each(problems: Iterable[OptionProblem]) -> Iterable[OptionProblem]:
    """Returns the first problem of each setting, and all problems of ``tables``."""
    first: dict[object, OptionProblem] = {}
    for problem in problems:
        first.setdefault(problem if problem.name == "tables" else problem.name, problem)
    return first.values()


__all__ = [
    "VARIABLE",
    "DispatchQueueOptions",
    "NullMode",
    "QueueTable",
    "first_of_each",
]

"""Recognises the form of a file before its first record is read: byte order and LOGTYPE.

A wrong setting could silently give wrong rows, so files are checked as a whole: if all records have one
length, the size of the file must be a multiple of it, and the first records must have legal headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, TypeVar

import numpy as np

from publisher.errors import FatalError
from publisher.sources.columns.byte_areas import Bytes, Mask, Offsets, numbers_at
from publisher.sources.linkexpress.framing import RecordFramer
from publisher.sources.linkexpress.headers import HeaderReader, NoTable
from publisher.sources.linkexpress.item_offsets import TableLayout, table_layouts
from publisher.sources.linkexpress.layout import form_of, numpy_type
from publisher.sources.linkexpress.options import (
    GREATEST_XID,
    ByteOrder,
    ExtractedTable,
    LinkexpressOptions,
    LogType,
)
from publisher.sources.linkexpress.reject_messages import header_fault

SAMPLE = 1000
"""Number of records that are examined."""
_SAMPLE_BYTES, _SAMPLES = 1 << 20, 8
"""Size and maximum number of the parts of a file that are examined."""
_BLOCKS = 50
"""Maximum number of blocks of records of one part that are examined."""
_ENOUGH = 20
"""Number of good records that cannot be a coincidence."""
NO_ROWS_FILE = b"\xff\xff"
"""The whole file of a full extract of zero rows if records have no LEN (documented)."""

_COMPRESSED = {
    b"\x1f\x8b\x08": "gunzip",
    b"PK\x03\x04": "unzip",
    b"BZh": "bunzip2",
    b"\xfd7zXZ\0": "unxz",
    b"\x28\xb5\x2f\xfd": "unzstd",
}
"""Tools that unpack a file, by its first bytes."""
_R = TypeVar("_R")
State = Literal["whole", "held", "tail", "no-rows"]
_ORDERS: tuple[ByteOrder, ...] = ("big", "little")
_WITHOUT_ORDER = frozenset({"NUMERIC", "DECIMAL", "CHARACTER", "NATIONAL CHARACTER", "TIME"})


@dataclass(frozen=True, slots=True)
class ExtractFileForm:
    """The properties of a file, or of a part of it, that the settings leave open."""

    order: ByteOrder
    logtype: LogType | None = None
    """The recognised LOGTYPE; ``None`` if the LOGTYPE of each table in the settings applies."""
    state: State = "whole"
    """``held``: records after the last commit record of all files; ``tail``: records after the last
    commit record of their file, if a later file has one; ``no-rows``: a full extract of zero rows."""

    @property
    def text(self) -> str:
        """The form as the index of held files stores it."""
        return f"{self.order} {self.logtype or 'declared'} {self.state}"

    @classmethod
    def of(cls, text: str) -> ExtractFileForm:
        """Parses ``text``."""
        order, logtype, state = text.split()
        return cls(order, None if logtype == "declared" else logtype, state)  # type: ignore[arg-type]


def build_framer(
    options: LinkexpressOptions, data: Bytes, file_form: ExtractFileForm, stop: int
) -> RecordFramer:
    """Builds the framer of a file of known form."""
    layouts = table_layouts(options, file_form.order, file_form.logtype)
    form, xids = layouts[0].form, {0: 0}
    if "xid" in form.words and options.extract == "diff":
        xids = {table.xid or 0: number for number, table in enumerate(options.tables)}
    strict = options.null_flags == "strict"
    return RecordFramer(
        HeaderReader(data, form, layouts, xids, file_form.order, strict), stop, options
    )


def recognise_file(options: LinkexpressOptions, data: Bytes, path: str) -> ExtractFileForm:
    """Recognises the form of a file.  Raises ``FatalError`` if it contradicts the settings."""
    form = form_of(options)
    if not len(data):
        return ExtractFileForm("big")
    if not form.has_length:
        if options.extract == "all" and data.tobytes() == NO_ROWS_FILE:
            return ExtractFileForm("big", state="no-rows")
        return _recognise_fixed_records(options, data, path)
    order = _order_of_lengths(options, data, path)
    file_form = ExtractFileForm(order, _logtype(options, data, order))
    first = build_framer(options, data, file_form, len(data)).headers.read_one(0)
    has_no_rows = int(first.table[0]) == NoTable.NO_ROWS
    return replace(file_form, state="no-rows") if has_no_rows else file_form


def _order_of_lengths(options: LinkexpressOptions, data: Bytes, path: str) -> ByteOrder:
    """Finds the byte order in which headers and lengths are legal."""
    orders = _orders(options)
    counts = _count_in_samples(
        data, orders, lambda part, order: _count_good(options, part, ExtractFileForm(order))
    )
    best = max(orders, key=lambda order: counts[order])
    if not counts[best]:
        raise FatalError(
            f"{path}: no record fits the settings ({_settings(options)});"
            f" {_advice(options, data, _explain_first(options, data))}"
        )
    if len(orders) == 1 or min(counts.values()) * 10 <= counts[best]:
        return best
    begins = [order for order in orders if _begins_with_record(options, data, order)]
    if len(begins) == 1:
        return begins[0]
    raise FatalError(
        f"{path}: its records can be read in either byte order; set byte_order to the order of the"
        " machine that extracted it (Windows, Linux: little; Solaris: big), or to the opposite with BYTESWAP"
    )


def _explain_first(options: LinkexpressOptions, data: Bytes) -> str:
    """Explains the problem of the first record, read in the byte order in which its length is smaller."""
    framers = [
        build_framer(options, data, ExtractFileForm(order), len(data)) for order in _orders(options)
    ]
    heads = [(framer, framer.headers.read_one(0)) for framer in framers]
    framer, head = min(heads, key=lambda each: int(each[1].length[0]) % (1 << 32))
    if head.good[0] or not head.length[0]:
        return ""
    length = int(head.length[0])
    if len(data) < length <= framer.headers.lengths[1]:
        return (
            f"LEN of the first record says {length} bytes, the file has {len(data)}: it was cut; copy it"
            " again, or extract again"
        )
    table = framer.tables[max(int(head.table[0]), 0)]
    _, detail = header_fault(head, 0, table, options)
    return f"the first record: {detail}"


def _begins_with_record(options: LinkexpressOptions, data: Bytes, order: ByteOrder) -> bool:
    """Returns whether the file begins with a whole record."""
    framer = build_framer(options, data, ExtractFileForm(order), len(data))
    return framer.count_exact(framer.record_at(0)) == 1


def _orders(options: LinkexpressOptions) -> tuple[ByteOrder, ...]:
    return _ORDERS if options.byte_order == "auto" else (options.byte_order,)


def _count_in_samples(
    data: Bytes, readings: Sequence[_R], count: Callable[[Bytes, _R], int]
) -> dict[_R, int]:
    """Counts records at the beginning of a file by each reading, and in further samples if there are few."""
    counts = dict.fromkeys(readings, 0)
    for start in np.linspace(0, max(0, len(data) - _SAMPLE_BYTES), _SAMPLES, dtype=np.int64):
        part = data[start : start + _SAMPLE_BYTES]
        counts = {reading: counts[reading] + count(part, reading) for reading in readings}
        if max(counts.values()) >= _ENOUGH or len(data) <= _SAMPLE_BYTES:
            break
    return counts


def _count_good(options: LinkexpressOptions, sample: Bytes, file_form: ExtractFileForm) -> int:
    """Counts good records at the beginning of a sample, up to about ``SAMPLE``."""
    count = 0
    for block in build_framer(options, sample, file_form, len(sample)).blocks(0):
        count += int(block.good.sum())
        if count >= SAMPLE:
            break
    return count


def _logtype(options: LinkexpressOptions, data: Bytes, order: ByteOrder) -> LogType | None:
    """Recognises the LOGTYPE of a JNL file with variable items, which no page documents."""
    if options.difftype != "JNL" or options.extract != "diff" or not options.tables[0].varies:
        return None
    kinds: tuple[LogType, ...] = ("LITTLE", "NORMAL")
    counts = _count_in_samples(
        data, kinds, lambda part, kind: _count_whole(options, part, ExtractFileForm(order, kind))
    )
    return max(kinds, key=lambda kind: counts[kind])


def _count_whole(options: LinkexpressOptions, data: Bytes, file_form: ExtractFileForm) -> int:
    """Counts records at the beginning of a file whose items fill them and have possible lengths."""
    sample = data[:_SAMPLE_BYTES]
    framer = build_framer(options, sample, file_form, len(sample))
    table, count = framer.tables[0], 0
    for block in islice(framer.blocks(0), _BLOCKS):
        count += framer.count_exact(block)
        if table.fixed is not None:  # else the header reader has checked the lengths
            records = block.offsets[block.good & (block.lengths == table.fixed)]
            count -= int((_count_oversized_items(table, sample, records) > 0).sum())
    return count


def _recognise_fixed_records(
    options: LinkexpressOptions, data: Bytes, path: str
) -> ExtractFileForm:
    length = build_framer(options, data, ExtractFileForm("big"), len(data)).tables[0].greatest
    excess = len(data) % length
    if excess:
        complete = data[: len(data) - excess]
        cut, orders = "", _orders(options)
        counts = [int(_has_legal_code(options, complete, order).sum()) for order in orders]
        if len(complete) and max(counts) == min(SAMPLE, len(complete) // length):
            cut = (
                f"the other records look right, but the last one has {excess} of {length} bytes: the file"
                " was cut; copy it again, or extract again"
            )
        raise FatalError(
            f"{path}: {len(data)} bytes are not a multiple of the record length {length} by the settings"
            f" ({_settings(options)}), {excess} are left over; {_advice(options, data, cut)}"
        )
    order = _order_of_one_length(options, data, path)
    legal = int(_has_legal_code(options, data, order).sum())
    if legal * 2 < min(SAMPLE, len(data) // length):
        raise FatalError(
            f"{path}: only {legal} of the first {min(SAMPLE, len(data) // length)} records of"
            f" {length} bytes have a legal operation code; {_advice(options, data)}"
        )
    return ExtractFileForm(order)


def _sample(
    options: LinkexpressOptions, data: Bytes, order: ByteOrder
) -> tuple[RecordFramer, Offsets]:
    framer = build_framer(options, data, ExtractFileForm(order), len(data))
    length = framer.tables[0].greatest
    return framer, np.arange(min(SAMPLE, len(data) // length), dtype=np.int64) * length


def _has_legal_code(options: LinkexpressOptions, data: Bytes, order: ByteOrder) -> Mask:
    """Marks the first records with a legal operation code."""
    framer, at = _sample(options, data, order)
    return framer.heads(at).good


def _order_of_one_length(options: LinkexpressOptions, data: Bytes, path: str) -> ByteOrder:
    if options.byte_order != "auto":
        return options.byte_order
    legal = {order: _has_legal_code(options, data, order) for order in _ORDERS}
    if not any(mask.any() for mask in legal.values()):
        return "big"  # wrong in either order; the caller refuses it
    misfits = {order: _count_misfits(options, data, order) for order in _ORDERS}
    codes = {order: int(legal[order].sum()) for order in _ORDERS}
    fits = {order: int((legal[order] & (misfits[order] == 0)).sum()) for order in _ORDERS}
    for counts, factor in ((codes, 10), (fits, 2)):
        best = max(_ORDERS, key=counts.__getitem__)
        if counts[best] and min(counts.values()) * factor <= counts[best]:
            return best
    wrong = {order: int(misfits[order].sum()) for order in _ORDERS}
    if codes["big"] == codes["little"] and wrong["big"] != wrong["little"]:
        return min(_ORDERS, key=wrong.__getitem__)
    if _WITHOUT_ORDER.issuperset(item.type for item in options.tables[0].parse_items()):
        return "big"  # no item depends on the byte order
    raise FatalError(
        f"{path}: its byte order is ambiguous; set byte_order to the order of the machine that"
        " extracted it (Windows, Linux: little; Solaris: big), or to the opposite with BYTESWAP"
    )


def _count_misfits(options: LinkexpressOptions, data: Bytes, order: ByteOrder) -> Offsets:
    """Counts impossible lengths and years in each of the first records, read in one byte order."""
    framer, records = _sample(options, data, order)
    table = framer.tables[0]
    cells = table.cells(data, records, records + table.greatest)
    misfits = _count_oversized_items(table, data, records)
    for number, item in enumerate(table.items):
        if item.type in ("DATE", "TIMESTAMP"):
            years = numbers_at(data, cells.starts[number], numpy_type(table.layout.word("uint16")))
            wrong = (years < 1) | (years > 9999)
            misfits += wrong & (cells.flags[number] == 0 if cells.flags else True)
    return misfits


def _count_oversized_items(table: TableLayout, data: Bytes, records: Offsets) -> Offsets:
    """Counts the items of each record that are too long; all records have the same length."""
    cells = table.cells(data, records, records + table.greatest)
    counts = np.zeros(len(records), np.int64)
    for number, item in enumerate(table.items):
        if item.type.endswith("VARYING") or item.type == "BLOB":
            wrong = table.sizes(data, cells.starts[number], item) > table.layout.capacity(item)
            counts += wrong & (cells.flags[number] == 0 if cells.flags else True)
    return counts


def _fits_most(
    options: LinkexpressOptions, sample: Bytes, order: ByteOrder, *, by_headers: bool
) -> bool:
    """Returns whether most of the first records fit; with ``by_headers`` only their headers must fit."""
    framer = build_framer(options, sample, ExtractFileForm(order), len(sample))
    total = fitting = 0
    for block in islice(framer.blocks(0), _BLOCKS):
        is_mark = block.heads.table == NoTable.MARK
        total += len(is_mark)
        if by_headers:
            fitting += int((block.heads.odd | block.good).sum())
        else:  # commit records have no items, so they do not show that the items fit
            fitting += framer.count_exact(block) - int((is_mark & block.good).sum())
    return fitting * 2 > total


def _settings(options: LinkexpressOptions) -> str:
    settings = [f"unit = {options.unit}", f"extract = {options.extract}"]
    if options.difftype:
        settings.append(f"difftype = {options.difftype}")
    nulls = str(options.nulls).lower()
    return ", ".join([*settings, f"nulls = {nulls}", f"byte_order = {options.byte_order}"])


def _advice(options: LinkexpressOptions, data: Bytes, otherwise: str = "") -> str:
    """Names another setting that would explain the file; ``otherwise`` is the text if none does."""
    for magic, tool in _COMPRESSED.items():
        if data[: len(magic)].tobytes() == magic:
            return f"it is compressed: unpack it first ({tool})"
    fitting = []
    for setting, variant in _variants(options):
        by_headers = _is_of_group(variant) and not _is_of_group(options)
        if _explains(variant, data, by_headers=by_headers):
            fitting.append(setting)
    if fitting:
        return f"it fits with {' or '.join(fitting)}: check the extraction definition"
    return (
        otherwise
        or "compare items, NULLIND, DIFFTYPE, LOGTYPE and BYTESWAP with the extraction definition"
    )


def _variants(options: LinkexpressOptions) -> Iterator[tuple[str, LinkexpressOptions]]:
    """Yields the options with one setting changed."""
    flipped: ByteOrder = "little" if options.byte_order == "big" else "big"
    changes: list[tuple[str, dict[str, object]]] = [
        (f"nulls = {str(not options.nulls).lower()}", {"nulls": not options.nulls}),
        ('difftype = "JNL"', {"difftype": "JNL"}),
        ('difftype = "OPEN"', {"difftype": "OPEN"}),
        ('extract = "all"', {"extract": "all"}),
        ('extract = "diff"', {"extract": "diff"}),
        ('unit = "group", extract = "all"', {"unit": "group", "extract": "all", "difftype": None}),
        (
            'unit = "group", extract = "diff"',
            {"unit": "group", "extract": "diff", "difftype": None, "tables": _with_xids(options)},
        ),
    ]
    types = {item.type for table in options.tables for item in table.parse_items()}
    if "NUMERIC" in types:
        changes.append(('numeric_sign = "overpunched"', {"numeric_sign": "overpunched"}))
    if options.byte_order != "auto":
        changes.append((f'byte_order = "{flipped}"', {"byte_order": flipped}))
    if len(options.tables) == 1:
        logtype: LogType = "LITTLE" if options.tables[0].logtype == "NORMAL" else "NORMAL"
        tables = (replace(options.tables[0], logtype=logtype),)
        changes.append((f'logtype = "{logtype}"', {"tables": tables, "blob_head": 8}))
    for setting, change in changes:
        try:
            variant = replace(options, **change)  # type: ignore[arg-type]
        except ValueError:
            continue
        if variant != options:
            yield setting, variant


def _with_xids(options: LinkexpressOptions) -> tuple[ExtractedTable, ...]:
    """Adds extraction identifiers, which only differences of a group need, to tables."""
    return tuple(replace(table, xid=table.xid or GREATEST_XID) for table in options.tables)


def _is_of_group(options: LinkexpressOptions) -> bool:
    """Returns whether files contain the differences of a group."""
    return options.unit == "group" and options.extract == "diff"


def _explains(options: LinkexpressOptions, data: Bytes, *, by_headers: bool) -> bool:
    form = form_of(options)
    for order in _orders(options):
        if form.has_length:
            if _fits_most(options, data[:_SAMPLE_BYTES], order, by_headers=by_headers):
                return True
            continue
        if options.extract == "all" and data.tobytes() == NO_ROWS_FILE:
            return True
        length = build_framer(options, data, ExtractFileForm(order), len(data)).tables[0].greatest
        if len(data) % length == 0:
            legal = int(_has_legal_code(options, data, order).sum())
            if legal and legal == min(SAMPLE, len(data) // length):
                return True
    return False

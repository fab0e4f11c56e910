"""Recognises the form of a file before its first record is read: byte order and LOGTYPE.

A wrong setting could silently give wrong rows, so all headers of a file are checked: a file with a header
that does not fit is refused as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from publisher.errors import FileRefusedError
from publisher.formats.columns.byte_areas import Bytes, Mask, Offsets, numbers_at
from publisher.formats.linkexpress.framing import Misfit, RecordFramer
from publisher.formats.linkexpress.headers import HeaderReader, NoTable
from publisher.formats.linkexpress.item_offsets import FITS, TableLayout, table_layouts
from publisher.formats.linkexpress.layout import form_of, numpy_type
from publisher.formats.linkexpress.options import ByteOrder, LinkexpressOptions, LogType

SAMPLE = 1000
"""Number of records that show the byte order and LOGTYPE."""
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
    return RecordFramer(HeaderReader(data, form, layouts, xids, file_form.order), stop, options)


def recognise_file(options: LinkexpressOptions, data: Bytes, path: str) -> ExtractFileForm:
    """Recognises the form of a file.  Raises ``FileRefusedError`` if a header contradicts the settings."""
    form = form_of(options)
    if not len(data):
        return ExtractFileForm("big")
    if not form.has_length:
        if options.extract == "all" and data.tobytes() == NO_ROWS_FILE:
            return ExtractFileForm("big", state="no-rows")
        return _recognise_fixed_records(options, data, path)
    file_form = _order_of_lengths(options, data, path)
    logtype = _logtype(options, data, file_form)
    if logtype is not None:
        file_form = replace(file_form, logtype=logtype)
        _refuse_misfit(options, data, path, file_form)
    block = next(build_framer(options, data, file_form, len(data)).blocks(0))
    has_no_rows = int(block.heads.table[0]) == NoTable.NO_ROWS
    return replace(file_form, state="no-rows") if has_no_rows else file_form


def _order_of_lengths(options: LinkexpressOptions, data: Bytes, path: str) -> ExtractFileForm:
    """Finds the byte order in which all headers fit."""
    forms = [ExtractFileForm(order) for order in _orders(options)]
    misfits = {form: build_framer(options, data, form, len(data)).find_misfit() for form in forms}
    fitting = [form for form in forms if misfits[form] is None]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        # the order that leads further, or else the one with the smaller first length
        found = [misfit for misfit in misfits.values() if misfit is not None]
        furthest = max(found, key=lambda misfit: (misfit.offset, -(misfit.length % (1 << 32))))
        raise _misfit_error(options, data, path, furthest)
    raise FileRefusedError(
        path,
        "its records can be read in either byte order; set byte_order to the order of the machine that"
        " extracted it (Windows, Linux: little; Solaris: big), or to the opposite with BYTESWAP",
    )


def _refuse_misfit(
    options: LinkexpressOptions, data: Bytes, path: str, file_form: ExtractFileForm
) -> None:
    misfit = build_framer(options, data, file_form, len(data)).find_misfit()
    if misfit is not None:
        raise _misfit_error(options, data, path, misfit)


def _misfit_error(
    options: LinkexpressOptions, data: Bytes, path: str, misfit: Misfit
) -> FileRefusedError:
    return FileRefusedError(
        path,
        f"the record at byte {misfit.offset} does not fit the settings ({_settings(options)}):"
        f" {misfit.detail}; {_advice(data)}",
    )


def _orders(options: LinkexpressOptions) -> tuple[ByteOrder, ...]:
    return _ORDERS if options.byte_order == "auto" else (options.byte_order,)


def _logtype(
    options: LinkexpressOptions, data: Bytes, file_form: ExtractFileForm
) -> LogType | None:
    """Recognises the LOGTYPE of a JNL file with variable items, which no page documents."""
    if options.difftype != "JNL" or options.extract != "diff" or not options.tables[0].varies:
        return None
    kinds: tuple[LogType, ...] = ("LITTLE", "NORMAL")
    return max(
        kinds, key=lambda kind: _count_whole(options, data, replace(file_form, logtype=kind))
    )


def _count_whole(options: LinkexpressOptions, data: Bytes, file_form: ExtractFileForm) -> int:
    """Counts records at the beginning of a file whose items fill them and have possible lengths."""
    framer = build_framer(options, data, file_form, len(data))
    table, block = framer.tables[0], next(framer.blocks(0))
    records, lengths = block.offsets[:SAMPLE], block.lengths[:SAMPLE]
    if table.fixed is None:
        cells = table.cells(data, records, records + lengths)
        return int(((cells.fault == FITS) & (cells.ends == records + lengths)).sum())
    records = records[lengths == table.fixed]
    return int((_count_oversized_items(table, data, records) == 0).sum())


def _recognise_fixed_records(
    options: LinkexpressOptions, data: Bytes, path: str
) -> ExtractFileForm:
    length = build_framer(options, data, ExtractFileForm("big"), len(data)).tables[0].greatest
    excess = len(data) % length
    if excess:
        complete = data[: len(data) - excess]
        advice = _advice(data)
        counts = [
            int(_has_legal_code(options, complete, order).sum()) for order in _orders(options)
        ]
        if len(complete) and max(counts) == min(SAMPLE, len(complete) // length):
            advice = (
                f"the other records look right, but the last one has {excess} of {length} bytes: the file"
                " was truncated; copy it again, or extract again"
            )
        raise FileRefusedError(
            path,
            f"{len(data)} bytes are not a multiple of the record length {length} by the settings"
            f" ({_settings(options)}), {excess} are left over; {advice}",
        )
    file_form = ExtractFileForm(_order_of_one_length(options, data, path))
    _refuse_misfit(options, data, path, file_form)
    return file_form


def _sample(
    options: LinkexpressOptions, data: Bytes, order: ByteOrder
) -> tuple[RecordFramer, Offsets]:
    framer = build_framer(options, data, ExtractFileForm(order), len(data))
    length = framer.tables[0].greatest
    return framer, np.arange(min(SAMPLE, len(data) // length), dtype=np.int64) * length


def _has_legal_code(options: LinkexpressOptions, data: Bytes, order: ByteOrder) -> Mask:
    """Marks the first records with a legal operation code."""
    framer, at = _sample(options, data, order)
    return framer.headers.read(at).good


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
    raise FileRefusedError(
        path,
        "its byte order is ambiguous; set byte_order to the order of the machine that"
        " extracted it (Windows, Linux: little; Solaris: big), or to the opposite with BYTESWAP",
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


def _settings(options: LinkexpressOptions) -> str:
    settings = [f"unit = {options.unit}", f"extract = {options.extract}"]
    if options.difftype:
        settings.append(f"difftype = {options.difftype}")
    nulls = str(options.nulls).lower()
    return ", ".join([*settings, f"nulls = {nulls}", f"byte_order = {options.byte_order}"])


def _advice(data: Bytes) -> str:
    for magic, tool in _COMPRESSED.items():
        if data[: len(magic)].tobytes() == magic:
            return f"it is compressed: unpack it first ({tool})"
    return (
        "extract again if the file is damaged, or compare items, NULLIND, DIFFTYPE, LOGTYPE and BYTESWAP"
        " with the extraction definition, then try numeric_sign, blob_head, interval_leading and little_null"
    )

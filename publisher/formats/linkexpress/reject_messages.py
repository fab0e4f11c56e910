"""Messages for rejected records: item, byte, and the settings to check."""

from __future__ import annotations

from publisher.formats.columns.byte_areas import Bytes
from publisher.formats.columns.record_batches import as_json
from publisher.formats.linkexpress.item_offsets import TableLayout
from publisher.formats.linkexpress.options import LinkexpressOptions
from publisher.formats.linkexpress.types import Item
from publisher.formats.retry import RAW_BYTES

_SHOWN = 32


def name_table(options: LinkexpressOptions, number: int) -> str:
    """Names the table of a record, if the file has several."""
    table = options.tables[max(number, 0)]
    return "" if table.xid is None else f"table {table.name} (xid {table.xid}): "


def unknown_table(xid: int, options: LinkexpressOptions) -> str:
    """Describes a record whose table is not in the settings."""
    legal = "0, as in every full extract" if options.extract == "all" else "one of the tables'"
    return f"extraction identifier {xid} is not {legal}; add a table with xid = {xid}"


def crossing_item(table: TableLayout, number: int, length: int, options: LinkexpressOptions) -> str:
    """Describes an item that does not end inside its record."""
    item = table.items[number]
    return (
        f"item {number + 1}, {item.text}, does not end inside the record of {length} bytes;"
        f" {_variable_hint(options)}"
    )


def length_difference(
    table: TableLayout, used: int, length: int, options: LinkexpressOptions
) -> str:
    """Describes items that end before or after the end of their record."""
    last = table.items[-1]
    return (
        f"the last item, {last.text}, ends at byte {used} of the record, LEN is {length}"
        f" ({length - used:+d}); {_variable_hint(options)}"
    )


def _variable_hint(options: LinkexpressOptions) -> str:
    other = "absent" if options.little_null == "length word" else "length word"
    return (
        "if this affects many records, check logtype, blob_head, national_length and"
        f' little_null (try "{other}")'
    )


def wrong_item(item: Item, number: int, area: Bytes, at: int, flag: int | None) -> str:
    """Describes bytes that are not a value of an item; ``at`` is their offset in the record."""
    name = f"item {number + 1}, {item.text}, at byte {at} of the record"
    if flag is not None and flag not in (0, 0xFFFF):
        return (
            f"{name}: its NULL area is {flag:04X}, neither 0000 nor FFFF; fix nulls or the items,"
            ' or set null_flags = "lenient"'
        )
    octets = area[:_SHOWN].tobytes().hex(" ").upper() + (" ..." if len(area) > _SHOWN else "")
    return f"{name}: {octets} is not a value of this type; {_ADVICE.get(item.type, _CHARSET)}"


_CHARSET = (
    'check charset and national_charset (with vendor characters, EUC is "eucJP-ms" or "CP51932"),'
    " and the items before it"
)
_ORDER = "check byte_order, and the items before it"
_ADVICE = {
    "DECIMAL": "digits in half bytes and a sign A to F are expected, check the items before it",
    "NUMERIC": "a sign and digits are expected, check numeric_sign and the items before it",
    "DATE": _ORDER,
    "TIME": "hour, minute and second are expected, check the items before it",
    "TIMESTAMP": _ORDER,
    "INTERVAL": (
        "a sign + or - is expected first, then fields within their precision (12 months make a year);"
        " check interval_leading, byte_order and the items before it"
    ),
    "REAL": f"it is not a finite number, {_ORDER}",
    "DOUBLE PRECISION": f"it is not a finite number, {_ORDER}",
    "CHARACTER VARYING": "its length word or its characters are wrong, check charset and byte_order",
    "NATIONAL CHARACTER VARYING": (
        "its length word or its characters are wrong, check national_charset, national_length"
        " and byte_order"
    ),
    "BLOB": "its length is wrong, check blob_head and byte_order",
}


def raw_text(data: Bytes, at: int, size: int, place: int) -> str:
    """Formats bytes of a file as JSON text with up to 1 MiB in hex; ``place`` is the offset to show."""
    octets = data[at : at + min(size, RAW_BYTES)].tobytes().hex()
    return as_json({"offset": place, "length": size, "hex": octets})

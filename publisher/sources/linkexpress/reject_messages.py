"""Messages for rejected records: item, byte, and the setting that would explain the problem."""

from __future__ import annotations

from dataclasses import replace

from publisher.model.change import Reason
from publisher.sources.columns.byte_areas import Bytes
from publisher.sources.columns.record_batches import as_json
from publisher.sources.linkexpress.headers import HeaderBatch, NoTable
from publisher.sources.linkexpress.item_offsets import TableLayout
from publisher.sources.linkexpress.layout import FLAG, ExtractCode, RecordForm, item_layout
from publisher.sources.linkexpress.options import LinkexpressOptions, LogType
from publisher.sources.linkexpress.types import VARIABLE, Item
from publisher.sources.retry import RAW_BYTES

_SHOWN = 32


def header_fault(
    heads: HeaderBatch, place: int, table: TableLayout, options: LinkexpressOptions
) -> tuple[Reason, str]:
    """Returns reason and message for a header that is illegal although its length is possible."""
    code, count = int(heads.code[place]), int(heads.count[place])
    form = table.form
    if code not in form.codes:
        legal = ", ".join(each.text for each in sorted(form.codes))
        return Reason.OPERATION_CODE, (
            f"operation code {code:04X} is illegal in this file ({legal});"
            " set extract and unit as the file was extracted"
        )
    if code in (ExtractCode.COMMIT, ExtractCode.NO_ROWS):
        return Reason.OPERATION_CODE, (
            f"operation code {ExtractCode(code).text} is illegal in a record with items (CNT {count}, LEN"
            f" {int(heads.length[place])}); the file is damaged, extract again"
        )
    if heads.flag[place]:
        return Reason.BROKEN_RECORD, (
            f"the NULL area of the operation code is {int(heads.flag[place]):04X} instead of 0000;"
            " extract again, or check nulls"
        )
    if int(heads.table[place]) == NoTable.UNKNOWN:
        xid = int(heads.xid[place])
        legal = "0, as in every full extract" if options.extract == "all" else "one of the tables'"
        return Reason.TABLE_NAME, (
            f"extraction identifier {xid} is not {legal}; add a table with xid = {xid}"
        )
    return Reason.BROKEN_RECORD, _description_fault(heads, place, table, options)


def _description_fault(
    heads: HeaderBatch, place: int, table: TableLayout, options: LinkexpressOptions
) -> str:
    """Describes how a record differs from the description of its table, and names a setting that fits."""
    form, count = table.form, int(heads.count[place])
    expected = len(table.items) + form.extra
    length, named = int(heads.length[place]), name_table(options, int(heads.table[place]))
    if form.extra and count != expected:
        return (
            f"{named}CNT is {count}, the settings have {expected} ({len(table.items)} items and"
            f" {form.extra}); {_count_advice(heads, place, table, options)}"
        )
    counted = f"CNT is {count} as in the settings, but " if form.extra else ""
    span = f"{table.least}" if table.fixed else f"{table.least} to {table.greatest}"
    return (
        f"{named}{counted}LEN is {length}, by the settings it is {span};"
        f" {_length_advice(heads, place, table, options)}"
    )


def name_table(options: LinkexpressOptions, number: int) -> str:
    """Names the table of a record, if the file has several."""
    table = options.tables[max(number, 0)]
    return "" if table.xid is None else f"table {table.name} (xid {table.xid}): "


def _count_advice(
    heads: HeaderBatch, place: int, table: TableLayout, options: LinkexpressOptions
) -> str:
    other = _other_table(heads, place, table.form, options)
    if other:
        return other
    missing = int(heads.count[place]) - len(table.items) - table.form.extra
    noun = "item" if abs(missing) == 1 else "items"
    if missing < 0:
        return f"remove {-missing} {noun} from its items, as in the extraction definition"
    size = ""
    if table.fixed is not None and missing == 1:
        bytes_ = int(heads.length[place]) - table.fixed - (FLAG if options.nulls else 0)
        size = f" of {bytes_} bytes" if bytes_ > 0 else ""
    return f"add {missing} {noun}{size} to its items, as in the extraction definition"


def _length_advice(
    heads: HeaderBatch, place: int, table: TableLayout, options: LinkexpressOptions
) -> str:
    length = int(heads.length[place])
    other = _other_table(heads, place, table.form, options)
    if other:
        return other
    advice = explain_length(length, table, options)
    described = options.tables[max(int(heads.table[place]), 0)]
    logtype: LogType = "LITTLE" if described.logtype == "NORMAL" else "NORMAL"
    variable = any(item.type in VARIABLE for item in table.items)
    other_layout = TableLayout(table.items, replace(table.layout, logtype=logtype), table.form)
    if (
        variable
        and options.difftype != "JNL"
        and other_layout.least <= length <= other_layout.greatest
    ):
        return f'if its records differ in length, set logtype = "{logtype}"; {advice}'
    return advice


def _other_table(
    heads: HeaderBatch, place: int, form: RecordForm, options: LinkexpressOptions
) -> str:
    """Names another table of the settings that the header fits, and says what to do."""
    count, length, described = (int(of[place]) for of in (heads.count, heads.length, heads.table))
    for number, table in enumerate(options.tables):
        items = table.parse_items()
        if number == described or len(items) + form.extra != count:
            continue
        layout = TableLayout(items, item_layout(options, table, "big"), form)
        if layout.least <= length <= layout.greatest:
            return (
                f"CNT and LEN fit table {table.name} (xid {table.xid}): if this holds for all records,"
                " swap the xids of the two tables"
            )
    return ""


def explain_length(length: int, table: TableLayout, options: LinkexpressOptions) -> str:
    """Names the setting that would explain a length that every record has."""
    if table.fixed is None:
        return _variable_hint(options)
    difference = length - table.fixed
    settings = []
    flags = FLAG * len(table.items)
    numerics = sum(item.type == "NUMERIC" for item in table.items)
    blobs = sum(item.type == "BLOB" for item in table.items)
    if difference == (-flags if options.nulls else flags):
        settings.append(f"nulls = {str(not options.nulls).lower()}")
    if numerics and difference == -numerics:
        settings.append('numeric_sign = "overpunched"')
    if blobs and abs(difference) == 4 * blobs:
        settings.append(f"blob_head = {8 if difference > 0 else 4}")
    if (
        difference == -2 and table.form.extra == 2 and not options.nulls
    ):  # with NULL areas, the flag would be read as the XID
        settings.append("a group whose records have no XID (such files cannot be read)")
    if settings:
        return (
            f"if all records differ by {difference:+d} bytes, {' or '.join(settings)} explains it"
        )
    sized = [item.text for item in table.items if item.length]
    long = f"too {'short' if difference > 0 else 'long'} by {abs(difference)} bytes"
    if sized:
        return f"if all records differ by this, one of {', '.join(sized)} is {long}: fix its length"
    return f"if all records differ by this, the items are {long}: compare them with the extraction definition"


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

"""The story as the differences of a group that Linkexpress extracts, built from the declarations that
read such files."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from publisher.demo.acts import Act, RowChange
from publisher.demo.people import Value
from publisher.demo.story import Counts
from publisher.model.change import Outcome, Reason
from publisher.sources.linkexpress import layout
from publisher.sources.linkexpress.layout import ItemLayout
from publisher.sources.linkexpress.options import ByteOrder, ExtractedTable, LinkexpressOptions
from publisher.sources.linkexpress.types import NATIONAL, VARIABLE, Item

ORDER: ByteOrder = "little"
"""That of the machine that extracts; the publisher finds it out."""


def write_extract(
    path: Path, options: LinkexpressOptions, acts: Iterable[Act], unfinished: RowChange
) -> Counts:
    """Writes the file, after its last commit what is not finished; gives what must be counted."""
    tables = {table.name: table for table in options.tables}
    parts, commits = [], 0
    for act in acts:
        parts += [record(options, tables[change.table], change) for change in act.changes]
        parts.append(commit(options))
        commits += 1
    published = len(parts) - commits
    parts.append(record(options, tables[unfinished.table], unfinished))
    path.write_bytes(b"".join(parts))
    return {
        (Outcome.PUBLISHED, None): published,
        (Outcome.IGNORED, Reason.COMMIT): commits,
        (Outcome.HELD, Reason.OPEN_TRANSACTION): 1,
    }


def record(options: LinkexpressOptions, table: ExtractedTable, change: RowChange) -> bytes:
    """A data record: the new row, of a delete the old one."""
    form, items, lies, area = _declare(options, table)
    row = change.before if change.after is None else change.after
    assert row is not None
    values = change.image(row)
    built = {
        f"item{number}": _item(lies, options, item, values[item.name])
        for number, item in enumerate(items)
    }
    body: bytes = area.build(built)
    code = layout.ExtractCode.DELETE
    if change.after is not None:
        is_new = change.before is None
        code = layout.ExtractCode.INSERT if is_new else layout.ExtractCode.UPDATE
    head = {
        "length": form.size + len(body),
        "count": len(items) + form.extra,
        "xid": table.xid,
        "flag": layout.NOT_NULL,
        "operation": code,
    }
    start: bytes = layout.header(form.words, ORDER).build(head)
    return start + body


@cache
def _declare(
    options: LinkexpressOptions, table: ExtractedTable
) -> tuple[layout.RecordForm, tuple[Item, ...], ItemLayout, Any]:
    """The parts that all records of a table share, with the declaration of its items."""
    lies = layout.item_layout(options, table, ORDER)
    return layout.form_of(options), table.parse_items(), lies, lies.items(table.parse_items())


def commit(options: LinkexpressOptions) -> bytes:
    """A commit record."""
    form = layout.form_of(options)
    head = {"length": form.mark_size, "count": 1, "flag": 0, "operation": layout.ExtractCode.COMMIT}
    built: bytes = layout.mark(form, ORDER).build(head)
    return built


def _item(
    lies: ItemLayout, options: LinkexpressOptions, item: Item, value: Value
) -> dict[str, Any]:
    if value is None:
        return {"null": layout.NULL, "value": bytes(lies.width(item))}
    return {"null": layout.NOT_NULL, "value": _area(lies, options, item, value)}


def _area(lies: ItemLayout, options: LinkexpressOptions, item: Item, value: Value) -> Any:
    match value:
        case str():
            return _text(lies, options, item, value)
        case bytes():
            return {"length": len(value), "data": value}
        case datetime():
            clock = {"hour": value.hour, "minute": value.minute, "second": value.second}
            return {"date": _date(value), "time": clock}
        case date():
            return _date(value)
        case Decimal():
            return pack_decimal(value, item)
    return value


def _text(lies: ItemLayout, options: LinkexpressOptions, item: Item, value: str) -> Any:
    text = value.encode(options.national_codec if item.type in NATIONAL else options.codec)
    if item.type not in VARIABLE:
        return text.ljust(item.length)
    return {"length": len(text) // lies.unit(item), "data": text}


def _date(value: date) -> dict[str, int]:
    return {"year": value.year, "month": value.month, "day": value.day}


def pack_decimal(value: Decimal, item: Item) -> bytes:
    """Digits in half bytes, the last one the sign."""
    size = item.length // 2 + 1
    digits = str(abs(int(value.scaleb(item.scale)))).zfill(2 * size - 1)
    return bytes.fromhex(digits + ("D" if value < 0 else "C"))

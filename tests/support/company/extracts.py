"""The story as Linkexpress differences of a group, built from the declarations that read such files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from publisher.formats.linkexpress import layout
from publisher.formats.linkexpress.layout import ItemLayout
from publisher.formats.linkexpress.options import ByteOrder, ExtractedTable, LinkexpressOptions
from publisher.formats.linkexpress.types import NATIONAL, VARIABLE, Item
from publisher.model.change import Outcome, Reason
from tests.support.company.acts import Act, RowChange
from tests.support.company.people import Value
from tests.support.company.story import Counts

BYTE_ORDER: ByteOrder = "little"
"""Byte order of the extracting machine, which the publisher detects."""


def write_extract(
    path: Path, options: LinkexpressOptions, acts: Iterable[Act], unfinished: RowChange
) -> Counts:
    """Writes the file, which ends with an uncommitted change; returns the expected counts."""
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


def recorded_acts(options: LinkexpressOptions, acts: Iterable[Act]) -> list[Act]:
    """Returns the acts as Linkexpress records them: a changed key is a delete and an insert."""
    keys = {table.name: frozenset(table.key) for table in options.tables}
    return [
        replace(act, changes=tuple(s for c in act.changes for s in _statements(c, keys[c.table])))
        for act in acts
    ]


def _statements(change: RowChange, key: frozenset[str]) -> Iterator[RowChange]:
    if key.isdisjoint(change.changed_columns):
        yield change
    else:
        yield replace(change, after=None)
        yield replace(change, before=None)


def record(options: LinkexpressOptions, table: ExtractedTable, change: RowChange) -> bytes:
    """Returns the data record of a change: the new row, or the old row of a delete."""
    form, items, item_layout, area = _declare(options, table)
    row = change.before if change.after is None else change.after
    assert row is not None
    values = change.image(row)
    values_of_items = {
        f"item{number}": _item(item_layout, options, item, values[item.name])
        for number, item in enumerate(items)
    }
    body: bytes = area.build(values_of_items)
    code = layout.ExtractCode.DELETE
    if change.after is not None:
        is_new = change.before is None
        code = layout.ExtractCode.INSERT if is_new else layout.ExtractCode.UPDATE
    header = {
        "length": form.size + len(body),
        "count": len(items) + form.extra,
        "xid": table.xid,
        "flag": layout.NOT_NULL,
        "operation": code,
    }
    start: bytes = layout.header(form.words, BYTE_ORDER).build(header)
    return start + body


@cache
def _declare(
    options: LinkexpressOptions, table: ExtractedTable
) -> tuple[layout.RecordForm, tuple[Item, ...], ItemLayout, Any]:
    """Returns the form of the records, the items of a table, their layout and their declaration."""
    item_layout = layout.item_layout(options, table, BYTE_ORDER)
    return (
        layout.form_of(options),
        table.parse_items(),
        item_layout,
        item_layout.items(table.parse_items()),
    )


def commit(options: LinkexpressOptions) -> bytes:
    """Returns a commit record."""
    form = layout.form_of(options)
    header = {
        "length": form.mark_size,
        "count": 1,
        "flag": 0,
        "operation": layout.ExtractCode.COMMIT,
    }
    encoded: bytes = layout.mark(form, BYTE_ORDER).build(header)
    return encoded


def _item(
    item_layout: ItemLayout, options: LinkexpressOptions, item: Item, value: Value
) -> dict[str, Any]:
    if value is None:
        return {"null": 0xFFFF, "value": bytes(item_layout.width(item))}
    return {"null": layout.NOT_NULL, "value": _area(item_layout, options, item, value)}


def _area(item_layout: ItemLayout, options: LinkexpressOptions, item: Item, value: Value) -> Any:
    match value:
        case str():
            return _text(item_layout, options, item, value)
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


def _text(item_layout: ItemLayout, options: LinkexpressOptions, item: Item, value: str) -> Any:
    text = value.encode(options.national_codec if item.type in NATIONAL else options.codec)
    if item.type not in VARIABLE:
        return text.ljust(item.length)
    return {"length": len(text) // item_layout.unit(item), "data": text}


def _date(value: date) -> dict[str, int]:
    return {"year": value.year, "month": value.month, "day": value.day}


def pack_decimal(value: Decimal, item: Item) -> bytes:
    """Encodes a DECIMAL: one digit per half byte, with the sign in the last half byte."""
    size = item.length // 2 + 1
    digits = str(abs(int(value.scaleb(item.scale)))).zfill(2 * size - 1)
    return bytes.fromhex(digits + ("D" if value < 0 else "C"))

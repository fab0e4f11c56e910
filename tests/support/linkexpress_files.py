"""Extraction files for tests, built from the declarations of the layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from publisher.formats.contract import Context
from publisher.formats.linkexpress import Linkexpress, LinkexpressOptions
from publisher.formats.linkexpress import layout as declared
from publisher.formats.linkexpress.options import ByteOrder, ExtractedTable
from publisher.formats.linkexpress.types import Item
from publisher.model.catalogue import Catalogue, JobCatalogue
from publisher.model.change import TALLY

Record = dict[str, Any]
NULL = object()
"""A NULL item."""
WRONG_NAME = b"\x81\xff      "
"""A CHARACTER(8) that is not text in CP932: its record is rejected as ``value``."""

USR = ExtractedTable(
    name="usr",
    schema="hr",
    key=("idu",),
    items=("idu INTEGER", "fname CHARACTER(8)", "pay DECIMAL(5,2)", "note VARCHAR(6)"),
    xid=1,
)
DEPT = ExtractedTable(name="dept", key=("no",), items=("no SMALLINT", "title NCHAR(4)"), xid=2)
OPEN = LinkexpressOptions(
    unit="table",
    extract="diff",
    nulls=True,
    tables=(USR,),
    difftype="OPEN",
    charset="CP932",
)
JNL = replace(OPEN, difftype="JNL")
GROUP = replace(OPEN, unit="group", difftype=None, tables=(USR, DEPT), national_charset="CP932")


def group_source(settings: str = "") -> str:
    """Returns the source of ``GROUP`` for a job file, with further ``settings``."""
    return f"""
[[sources]]
format = "linkexpress"
{settings}
unit = "group"
extract = "diff"
nulls = true
charset = "CP932"
national_charset = "CP932"
[[sources.tables]]
name = "usr"
xid = 1
key = ["idu"]
items = ["idu INTEGER", "fname CHARACTER(8)", "pay DECIMAL(5,2)", "note VARCHAR(6)"]
[[sources.tables]]
name = "dept"
xid = 2
key = ["no"]
items = ["no SMALLINT", "title NCHAR(4)"]
"""


def little(options: LinkexpressOptions) -> LinkexpressOptions:
    """Returns the options with LOGTYPE = LITTLE for all tables."""
    tables = tuple(replace(table, logtype="LITTLE") for table in options.tables)
    return replace(options, tables=tables)


def jack(idu: int, code: int = 1, name: bytes = b"Jack    ") -> tuple[int, int, list[Any]]:
    """A record of ``USR``: table, code, values."""
    return 0, code, [idu, name, bytes.fromhex("12345C"), {"length": 3, "data": b"abc"}]


def record(
    options: LinkexpressOptions,
    number: int,
    code: int,
    values: Sequence[Any],
    order: ByteOrder = "big",
) -> bytes:
    """A data record of a table; ``NULL`` among the values."""
    table = options.tables[number]
    form, layout, parsed, area = _declare(options, table, order)
    items = {}
    for place, (item, value) in enumerate(zip(parsed, values, strict=True)):
        if value is NULL:
            width = (
                0
                if layout.is_variable(item) and layout.little_null == "absent"
                else layout.width(item)
            )
            items[f"item{place}"] = {"null": 0xFFFF, "value": b"\0" * width}
        else:
            items[f"item{place}"] = {"null": 0, "value": value}
    body: bytes = area.build(items)
    head = {
        "length": form.size + len(body),
        "count": len(values) + form.extra,
        "xid": 0 if options.extract == "all" else table.xid or 0,
        "flag": 0,
        "operation": code,
    }
    start: bytes = declared.header(form.words, order).build(head)
    return start + body


@cache
def _declare(
    options: LinkexpressOptions, table: ExtractedTable, order: ByteOrder
) -> tuple[declared.RecordForm, declared.ItemLayout, tuple[Item, ...], Any]:
    """The form of the records, the layout of the items of a table, the items and their declaration."""
    layout, items = declared.item_layout(options, table, order), table.parse_items()
    return declared.form_of(options), layout, items, layout.items(items)


def mark(options: LinkexpressOptions, order: ByteOrder = "big") -> bytes:
    """A commit record."""
    form = declared.form_of(options)
    built: bytes = declared.mark(form, order).build(
        {"length": form.mark_size, "count": 1, "flag": 0, "operation": declared.ExtractCode.COMMIT}
    )
    return built


def no_rows(options: LinkexpressOptions, order: ByteOrder = "big") -> bytes:
    """The record of a full extract of zero rows."""
    form = declared.form_of(options)
    head = {
        "length": form.size,
        "count": 2,
        "xid": 0,
        "flag": 0,
        "operation": declared.ExtractCode.NO_ROWS,
    }
    built: bytes = declared.header(form.words, order).build(head)
    return built


def read(
    options: LinkexpressOptions,
    data: bytes | Path,
    folder: Path,
    wanted: int = 1,
    lanes: int = 4,
    catalogue: Catalogue | None = None,
) -> tuple[list[Record], int]:
    """All records in the order of the file, and the sum of the tallies."""
    path = data if isinstance(data, Path) else folder / "usr.dat"
    if isinstance(data, bytes):
        path.write_bytes(data)
    source = Linkexpress(options)
    records: list[Record] = []
    framed = 0
    for number, split in enumerate(source.splits([path], wanted)):
        for batch in source.read(split, number, Context(7, lanes, catalogue or JobCatalogue(()))):
            batch.validate(full=True)
            for row in batch.to_pylist():
                if row["outcome"] == TALLY:
                    framed += row["row"]
                else:
                    records.append(row)
    return sorted(records, key=lambda row: row["row"]), framed


def record_text(found: Record) -> str:
    """A record in short: ``3 idu=1 fname=Jack note=NULL`` or ``rejected value``."""
    if found["outcome"] is not None and found["columns"] is None:
        return {3: "ignored", 4: "held", 5: "rejected"}[found["outcome"]] + f" {found['reason']}"
    held = "held " if found["outcome"] is not None else ""
    pairs = zip(found["columns"], found["new"] or (), strict=True)
    values = [f"{name}={'NULL' if value is None else value}" for name, value in pairs]
    return held + " ".join([str(found["event_type"]), found["key"], *values])

"""The table that ``inspect`` shows on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from rich.cells import cell_len

from publisher.console import Styled, printable, shorten, style
from publisher.model.change import EventType
from publisher.model.reason_texts import EVENT_NAMES

_HEADER = ("position", "object", "change")
"""The columns after the number of the record, which is that of its line in text."""
_BINARY = frozenset({".parquet", ".pq", ".dat"})
_MEASURED = 100
"""Number of records whose cells set the widths of the columns."""
_LONGEST = 60
"""Greatest number of characters of a value."""
_NARROW = 20
"""Smallest width of the values."""


class _Row(NamedTuple):
    file: str
    cells: tuple[str, ...]
    values: list[tuple[str, str]]
    """Names, and values as they are shown."""
    detail: str
    """The reason of the outcome."""


def table_lines(records: Iterator[str], width: int, *, with_files: bool) -> Iterator[Styled]:
    """Yields the lines of a table of records, which are JSON; ``with_files`` shows the name of each file."""
    rows = map(_row, map(json.loads, records))
    first = list(islice(rows, _MEASURED))
    is_text = not first or Path(first[0].file).suffix.lower() not in _BINARY
    header = ("line" if is_text else "record", *_HEADER)
    cells = [header, *(row.cells for row in first)]
    widths = [max(cell_len(row[at]) for row in cells) for at in range(len(header))]
    margin = sum(widths) + 2 * len(widths)
    yield Styled(style("".join(_pad(header, widths)) + "values", dim=True))
    file = None
    for row in chain(first, rows):
        if with_files and row.file != file:
            yield Styled(row.file)
        file = row.file
        line, position, *others = _pad(row.cells, widths)
        start = style(line + position, dim=True) + "".join(others)
        rest = max(width - margin, _NARROW)
        for values in [*_lines_of(row.values, rest), *wrap(row.detail, rest)] or [""]:
            yield Styled((start + values).rstrip())
            start = " " * margin


def _pad(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell + " " * (width - cell_len(cell) + 2) for cell, width in zip(cells, widths, strict=True)
    ]


def _lines_of(values: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Divides the values of a change into lines; a value that is longer than a line has lines of its own."""
    line, used = "", 0
    for name, text in values:
        size = cell_len(name + text)
        if line and used + 2 + size > width:
            yield line
            line, used = "", 0
        if size > width:
            first, *others = wrap(name + text, width, drop_whitespace=False)
            yield first[: len(name)] + style(first[len(name) :], bold=True)
            yield from (style(other, bold=True) for other in others)
            continue
        line += ("  " if line else "") + name + style(text, bold=True)
        used += (2 if used else 0) + size
    if line:
        yield line


def _row(record: dict[str, Any]) -> _Row:
    table = ".".join(filter(None, (record.get("schema"), record.get("table"))))
    key = record.get("key")
    obj = "" if key is None else f"{shorten(key, _LONGEST)} of {table}"
    event = record.get("event_type")
    change = "" if event is None else f"{event} {EVENT_NAMES[EventType(event)]}"
    change = change.removesuffix(" (remove all values)")
    values = [_value(column) for column in record.get("columns", ())]
    if "outcome" in record:
        change = (
            f"{record['outcome']} ({record['reason']})" if record["reason"] else record["outcome"]
        )
    cells = (str(record["record"]), record["position"], obj, change)
    shown = [(printable(name), printable(text)) for name, text in values]
    detail = printable(record.get("detail") or "")
    return _Row(printable(record["file"]), tuple(map(printable, cells)), shown, detail)


def _value(column: dict[str, Any]) -> tuple[str, str]:
    """The name of a column, and its images: ``new``, ``old → new`` or, without a new one, ``old →``."""
    name = ".".join(filter(None, (column.get("child"), column["name"])))
    images = [
        "NULL" if column[image] is None else shorten(str(column[image]), _LONGEST)
        for image in ("old", "new")
        if image in column
    ]
    return (f"{name}=", " → ".join(images)) if images else (name, "")

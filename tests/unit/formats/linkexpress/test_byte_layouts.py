"""Byte layouts of records (field, offset, size), as the declarations give them (reference, section 2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from publisher.formats.linkexpress.layout import form_of, header, item_layout, word_offsets
from publisher.formats.linkexpress.options import LinkexpressOptions
from tests.support.linkexpress_files import GROUP, JNL, OPEN, little

HEADERS = {
    "normal": (OPEN, [("operation", 0, 2)]),
    "little": (little(OPEN), [("length", 0, 4), ("operation", 4, 2)]),
    "jnl": (JNL, [("length", 0, 4), ("count", 4, 2), ("flag", 6, 2), ("operation", 8, 2)]),
    "group": (
        GROUP,
        [("length", 0, 4), ("count", 4, 2), ("xid", 6, 2), ("flag", 8, 2), ("operation", 10, 2)],
    ),
    "group without NULL areas": (
        replace(GROUP, nulls=False),
        [("length", 0, 4), ("count", 4, 2), ("xid", 6, 2), ("operation", 8, 2)],
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers(name: str) -> None:
    options: LinkexpressOptions = HEADERS[name][0]
    words = form_of(options).words
    sizes = {field.name: field.sizeof() for field in header(words, "big").subcons}
    fields = [(word, offset, sizes[word]) for word, offset in word_offsets(words).items()]
    assert fields == HEADERS[name][1]


def test_items_of_a_normal_record() -> None:
    layout, at, fields = item_layout(OPEN, OPEN.tables[0], "big"), form_of(OPEN).size, []
    for item in OPEN.tables[0].parse_items():
        size = 2 + layout.width(item)  # NULL area and data
        fields.append((item.name, at, size))
        at += size
    assert fields == [("idu", 2, 6), ("fname", 8, 10), ("pay", 18, 5), ("note", 23, 10)]

"""Byte layouts of dispatch queues and table-queue samples, against goldens (offset, size, field)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from publisher.formats.dispatch_queue.images.layout import image_layout
from publisher.formats.dispatch_queue.options import DispatchQueueOptions, NullMode, QueueTable
from publisher.formats.dispatch_queue.rows import layout as queue_row
from publisher.formats.table_queue.layout import BULK_CALL, BULK_HEADER, dirr_out
from publisher.formats.table_queue.options import TableQueueOptions
from tests.support.byte_layouts import layout_text

GOLDENS = Path(__file__).parent / "layouts"
COLUMNS = ("idu INTEGER", "name CHAR(8)", "note VARCHAR(20)", "pay DECIMAL(9,2)", "hired DATE")


def image(null_mode: NullMode) -> Any:
    table = QueueTable(7, columns=COLUMNS, key=("idu",))
    options = DispatchQueueOptions(
        null_mode=null_mode, null_flag=1, null_bits="lsb", image_charset="cp866", tables=(table,)
    )
    return image_layout(options, table).declaration


LAYOUTS = {
    "dispatch-queue-row": queue_row.row(),
    "dispatch-queue-image": image("none"),
    "dispatch-queue-image-flags": image("byte_after"),
    "dispatch-queue-image-bitmap": image("bitmap_prefix"),
    "table-queue-dirr-out": dirr_out(TableQueueOptions()),
    "table-queue-dirr-out-64-bit": dirr_out(TableQueueOptions(long_bytes=8, identifier_length=67)),
    "table-queue-bulk-header": BULK_HEADER,
    "table-queue-bulk-call": BULK_CALL,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_byte_layout_stays(name: str) -> None:
    assert layout_text(LAYOUTS[name]) == (GOLDENS / f"{name}.txt").read_text()

"""Refuses files of an event log whose columns are in the other documented order."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.formats.columns.columns import texts
from publisher.formats.event_log.layout import LAYOUT, Layout
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.files.frame import Frame


def check_layout(frames: Iterator[Frame], path: str, options: EventLogOptions) -> Iterator[Frame]:
    """Yields the frames; refuses a file whose first records have no status letter where the layout has it.

    Raises ``FatalError``.
    """
    checked = False
    for frame in frames:
        if not checked and frame.batch.num_rows:
            _check_batch(frame.batch, path, options.layout)
            checked = True
        yield frame


def _check_batch(batch: pa.RecordBatch, path: str, layout: Layout) -> None:
    if _has_status(batch, LAYOUT[layout].index("status")):
        return
    other: Layout = "2.x" if layout == "3.5" else "3.5"
    fits = _has_status(batch, LAYOUT[other].index("status"))
    advice = f'set layout = "{other}"' if fits else "name the columns in the file"
    raise FatalError(
        f"{path}: none of the first {batch.num_rows} records has a status letter"
        f" where the layout {layout} has it; {advice}"
    )


def _has_status(batch: pa.RecordBatch, column: int) -> bool:
    text = pc.utf8_trim_whitespace(texts(batch.column(column))[0])
    letters = pc.and_(pc.equal(pc.utf8_length(text), 1), pc.utf8_is_alpha(text))
    return bool(pc.any(letters).as_py())

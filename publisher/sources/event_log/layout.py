"""The columns of an event log by their place, in the two documented orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.model.change import LOG_COLUMNS
from publisher.sources.columns.columns import texts
from publisher.sources.files.frame import Frame

Layout = Literal["3.5", "2.x"]

LAYOUT: Mapping[Layout, tuple[str, ...]] = {
    "3.5": LOG_COLUMNS,
    "2.x": (
        "record_id",
        "status",
        "event_type",
        "event_time",
        "perpetrator",
        "table_name",
        "table_key",
        "column_name",
        "old_value",
        "new_value",
    ),
}
"""Columns by position: ``3.5`` of the drivers 3.5.1, 3.6 and 4.8; ``2.x`` of the drivers 2.0 and 2.1."""

OPTIONAL = frozenset({"perpetrator", "column_name", "old_value", "new_value"})
"""Columns that may be NULL, and so may be absent from a JSON object."""


def check_layout(frames: Iterator[Frame], path: str, layout: Layout) -> Iterator[Frame]:
    """Yields the frames; refuses a file whose first records have no status letter where the layout has it.

    Raises ``FatalError``.
    """
    checked = False
    for frame in frames:
        if not checked and frame.batch.num_rows:
            _check_batch(frame.batch, path, layout)
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

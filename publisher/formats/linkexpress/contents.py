"""Contents of changes: event types, columns and values of the records of one table.

A record of a child table changes values of its parent's object: an insert adds them, a delete removes them.
An update shows no former values, and the items of a delete are certain only in the key that Linkexpress
requires of every table; so other values are unknown, and rejected or read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.byte_areas import Mask, Offsets
from publisher.formats.columns.object_names import RecordFault
from publisher.formats.columns.record_batches import child_columns
from publisher.formats.columns.row_images import marked_names, marked_values
from publisher.formats.linkexpress.layout import ExtractCode
from publisher.formats.linkexpress.object_names import ExtractedTableNames
from publisher.model.change import EventType, Reason

Content = Mapping[str, object]
"""Columns of ``RECORD_SCHEMA``."""


def row_content(
    names: ExtractedTableNames, codes: Offsets, texts: Sequence[pa.Array], live: Offsets
) -> Content:
    """Builds the contents of changes of whole rows; ``texts`` are the items of all records."""
    types = np.full(len(codes), EventType.INSERT_FIELD, np.int32)
    types[codes == ExtractCode.UPDATE] = EventType.REPLACE_FIELD
    types[codes == ExtractCode.DELETE] = EventType.DELETE_ROW
    named = [names.columns[number] for number in names.published]
    values = [texts[number] for number in names.published]
    present = codes != ExtractCode.DELETE
    marked = np.repeat(present[:, None], len(named), axis=1)
    if not named:  # as in event logs, an insert needs at least one column
        named = [names.columns[names.key[0]]]
        values = [pa.nulls(len(texts[0]), pa.string())]
        marked = (present & (codes != ExtractCode.UPDATE))[:, None]
    return {
        "event_type": types,
        "columns": marked_names(named, marked),
        "new": marked_values(values, marked, live, present),
    }


def child_row_content(
    names: ExtractedTableNames, codes: Offsets, texts: Sequence[pa.Array], live: Offsets
) -> Content:
    """Builds the contents of changes of an attribute; records with unknown values read it."""
    is_read, updates = lack_values(names, codes), codes == ExtractCode.UPDATE
    marked = np.repeat((~updates | is_read)[:, None], len(names.published), axis=1)
    values = [texts[number].take(pa.array(live)) for number in names.published]
    removed = pa.array(codes == ExtractCode.DELETE)
    columns = marked_names([names.columns[number] for number in names.published], marked)
    return {
        **child_columns(names.child, columns),
        "event_type": np.where(
            is_read, EventType.UPDATE_FIELD_QUERY_BACK, EventType.UPDATE_FIELD
        ).astype(np.int32),
        "columns": columns,
        "old": marked_values(
            [pc.if_else(removed, v, None) for v in values], marked, None, ~is_read
        ),
        "new": marked_values(
            [pc.if_else(removed, None, v) for v in values], marked, None, ~is_read
        ),
    }


def child_row_faults(
    names: ExtractedTableNames, codes: Offsets, *, reads: bool
) -> Iterator[tuple[Mask, RecordFault]]:
    """Yields the faults of records that lack the parent or the values that the row had.

    ``reads``: the current values are read where only the former values are unknown."""
    if names.values is None:
        return
    if set(names.key) - names.certain:
        yield _are_changes(codes), _fault(names, names.key, "the parent that the row had", "")
    if not reads:
        advice = ', or set child_row_events = "read"'
        fault = _fault(names, names.published, "a value that the row had", advice)
        yield lack_values(names, codes), fault


def lack_values(names: ExtractedTableNames, codes: Offsets) -> Mask:
    """Marks records of a child table that do not show the values that they remove."""
    return _are_changes(codes) & bool(set(names.published) - names.certain)


def _are_changes(codes: Offsets) -> Mask:
    return np.isin(codes, (ExtractCode.UPDATE, ExtractCode.DELETE))


def _fault(
    names: ExtractedTableNames, numbers: Sequence[int], what: str, advice: str
) -> RecordFault:
    items = ", ".join(names.items[place].name for place in numbers if place not in names.certain)
    return RecordFault(
        Reason.CHILD_ROW,
        f"{what} is certain only in the key of its table, which the settings give without {items}: complete"
        f" key in [[sources.tables]] if the table has this key{advice}",
    )

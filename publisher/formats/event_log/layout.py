"""The columns of an event log by their place, in the two documented orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from publisher.model.change import LOG_COLUMNS

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

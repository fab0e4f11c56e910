"""Changes of keys that records with both images of a row report."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from publisher.model.change import EventType
from publisher.model.keys import parse


def key_change_columns(old_keys: Iterable[str], new_keys: Iterable[str]) -> dict[str, object]:
    """Builds the columns of ``RECORD_SCHEMA`` of changes of keys, given both canonical keys of each."""
    columns, old, new = [], [], []
    for before, after in zip(old_keys, new_keys, strict=True):
        pairs = zip(parse(before), parse(after), strict=True)
        changed = [(one, other) for one, other in pairs if one != other]
        columns.append([part.column for part, _ in changed])
        old.append([part.value for part, _ in changed])
        new.append([part.value for _, part in changed])
    lists = {"columns": columns, "old": old, "new": new}
    arrays = {name: pa.array(values, pa.list_(pa.string())) for name, values in lists.items()}
    return {"event_type": int(EventType.KEY_CHANGE), **arrays}

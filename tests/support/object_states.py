"""The stored states of objects, as tests look at them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from publisher.ledger.object_states import _REMOVED, _open_to_read, _read
from publisher.model.published_objects import PublishedObject


def read_states(files: Sequence[Path]) -> dict[str, PublishedObject]:
    """Reads all states of some files, newest first."""
    states: dict[str, str] = {}
    for path in reversed(files):
        with closing(_open_to_read(path)) as file:
            for rows in _read(path, file, "SELECT association, state FROM objects"):
                states.update(rows)
    return {name: PublishedObject(text) for name, text in states.items() if text != _REMOVED}

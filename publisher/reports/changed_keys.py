"""Finds the changes of keys in ledgers: the former associations of an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.compute as pc

from publisher.ledger.read import scan_runs

_COLUMNS = ["association", "new_association"]


def former_associations(directories: Sequence[Path]) -> Mapping[str, Sequence[str]]:
    """Returns the associations from which objects were renamed, by their new association.

    Raises:
        UsageError: A directory has no ledger.
        FatalError: A ledger is damaged, or another version of the program wrote it.
    """
    former: dict[str, dict[str, None]] = {}
    for directory in directories:
        for part in scan_runs(directory):
            table = part.documents(_COLUMNS, pc.field("new_association").is_valid())
            for old, new in zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True):
                former.setdefault(new, {})[old] = None
    return {new: tuple(olds) for new, olds in former.items()}

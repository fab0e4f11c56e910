"""How far a job has read its live logs, and which records of a run came late.

A record is late where its record_id lies below the greatest that an earlier run has read: its
transaction committed after those of greater ids, or it was held or retried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from publisher.errors import FatalError
from publisher.journal.durable import write_durably


def read_greatest(path: Path) -> dict[str, int]:
    """The greatest record ids that were read, by name of the source.

    Raises:
        FatalError: The file is damaged.
    """
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): int(number) for name, number in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise FatalError(
            f"{path} is damaged: remove it; then it is not known any more which records come late"
        ) from error


def write_greatest(path: Path, greatest: Mapping[str, int]) -> None:
    """Writes them durably."""
    write_durably(path, json.dumps(dict(greatest), indent=1) + "\n")

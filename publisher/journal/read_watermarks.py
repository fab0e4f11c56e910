"""The greatest record ids that a job has read from its live logs, to detect late records.

A record is late if its record_id is below the greatest id that an earlier run has read: its
transaction committed after the transactions of greater ids, or it was held or retried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from publisher.errors import FatalError


def read_greatest(path: Path) -> dict[str, int]:
    """Reads the greatest record ids by name of the source.

    Raises:
        FatalError: The file is damaged.
    """
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): int(number) for name, number in content.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise FatalError(
            f"{path} is damaged: remove it; late records are then not detected until the next run"
        ) from error


def greatest_text(greatest: Mapping[str, int]) -> str:
    """Composes the text of the file with these record ids."""
    return json.dumps(dict(greatest), indent=1) + "\n"

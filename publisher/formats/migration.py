"""The rows that ``migrate`` publishes as new."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Migration:
    """Rows to publish as new even if they are known."""

    tables: tuple[str, ...] = ()
    """Tables; empty: all of the source."""
    equal: tuple[tuple[str, str], ...] = ()
    """Columns and their texts; all must match."""
    keys: tuple[str, ...] = ()
    """Keys of rows; empty: all."""

    def plain(self) -> dict[str, object]:
        """Converts to the plain values that a state stores."""
        return dict(json.loads(json.dumps(asdict(self))))

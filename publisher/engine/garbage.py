"""Collection of garbage in tasks."""

from __future__ import annotations

import gc

_OBJECTS_BEFORE_COLLECTION = 500_000


def collect_rarely() -> None:
    """Makes Python collect cyclic garbage less often.

    Changes, documents and records are tuples without cycles: searching them for cycles took a
    third of a worker's time (measured).  Reference counting still frees them.
    """
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION, 50, 1000)

"""Daemon of Spark's Python workers that imports their modules before it forks them.

Each worker is a fork of the daemon, and need not import these modules again.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from functools import wraps

from publisher.engine.start_arrow import start_arrow

MODULES = (
    "pyarrow",
    "pyarrow.compute",
    "pyspark.worker",
    "publisher.engine.lane_tasks",
)
"""Modules that tasks use; none of them starts a thread when it is imported."""


def main() -> None:
    """Imports the modules, then serves until Spark closes standard input."""
    start_arrow()
    for module in MODULES:
        importlib.import_module(module)
    from pyspark import daemon  # noqa: PLC0415 - it changes signals and standard streams

    daemon.worker = end_quietly(daemon.worker)
    # after each task pyspark searches for garbage, which takes 40 ms with the objects of the modules
    gc.freeze()
    daemon.manager()


def end_quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """Lets a worker end without an error if the JVM has closed their connection.

    A session that ends closes the connections of idle workers.  pyspark's worker tries to answer with an
    exception, and prints a traceback if that fails before its daemon ends it."""

    @wraps(worker)
    def work(*arguments: object) -> int:
        try:
            return worker(*arguments)
        except ConnectionError:
            return 1

    return work


if __name__ == "__main__":
    main()

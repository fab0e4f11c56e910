"""Daemon of Spark's Python workers that imports their modules before it forks them.

Each worker is a fork of the daemon, and need not import these modules again.
"""

from __future__ import annotations

import gc
import importlib

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
    # after each task pyspark searches for garbage, which takes 40 ms with the objects of the modules
    gc.freeze()
    from pyspark.daemon import manager  # noqa: PLC0415 - it changes signals and standard streams

    manager()


if __name__ == "__main__":
    main()

"""Spark's daemon of Python workers, which has the workers' modules in memory before it forks them.

Each worker is a fork of the daemon: what the daemon has imported, no worker imports again.
"""

from __future__ import annotations

import importlib

MODULES = (
    "pyarrow",
    "pyarrow.compute",
    "pyspark.worker",
    "publisher.engine.tasks",
)
"""Modules that tasks use; none of them starts a thread when it is imported."""


def main() -> None:
    """Imports, then serves until Spark closes standard input."""
    for module in MODULES:
        importlib.import_module(module)
    from pyspark.daemon import manager  # noqa: PLC0415 - it changes signals and standard streams

    manager()


if __name__ == "__main__":
    main()

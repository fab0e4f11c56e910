"""Spark's daemon of Python workers with marks around what tasks do."""

from __future__ import annotations

from pyspark import daemon  # noqa: TID251 - the daemon of its workers

from tests.chaos.marked_tasks import mark_tasks

if __name__ == "__main__":
    mark_tasks()
    daemon.manager()

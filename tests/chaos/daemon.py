"""Spark's daemon of Python workers, as the program has it, with marks around what tasks do."""

from __future__ import annotations

from publisher.engine.spark import worker_daemon
from tests.chaos.marked_tasks import mark_tasks

if __name__ == "__main__":
    mark_tasks()
    worker_daemon.main()

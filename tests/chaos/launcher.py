"""The program with marks of its phases around its own functions, on a slow disk.

``python -m tests.chaos.launcher`` takes the words of ``xds-publisher``.  What is marked does what it
always does; the disk answers late so that a kill can hit between two steps of a commit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from publisher.cli import main as cli
from publisher.database import statuses
from publisher.database.statuses import StatusWriter
from publisher.dispatch.files import FileDispatcher
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.ledger.runs import LedgerRun
from publisher.runs import acknowledge
from tests.chaos.marked_tasks import mark_tasks
from tests.chaos.marks import WRITTEN, during, phase

DISK_SECONDS = 0.005
DATABASE_SECONDS = 0.05
IDLE_SECONDS = 5
"""A halted writer keeps its rows so long: nobody here waits for a slow database."""


def delay(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function answer late."""

    def done(*words: Any) -> Any:
        time.sleep(DISK_SECONDS)
        return function(*words)

    return done


def expose(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds a moment after a function in which a kill can hit."""

    def done(*words: Any) -> Any:
        result = function(*words)
        with phase(WRITTEN):
            time.sleep(DATABASE_SECONDS)
        return result

    return done


def main() -> None:
    """Marks what the driver does; Spark's tasks have their marks by ``tests.chaos.daemon``."""
    mark_tasks()
    named: list[tuple[Any, str, str]] = [
        (LedgerRun, "commit", "commit"),
        (FileDispatcher, "dispatch", "dispatch"),
        (KafkaDispatcher, "dispatch", "dispatch"),
        (acknowledge, "acknowledge", "acknowledge"),
    ]
    for owner, function, name in named:
        setattr(owner, function, during(name, getattr(owner, function)))
    statuses.IDLE_SECONDS = IDLE_SECONDS
    writer: Any = StatusWriter
    writer.change_rows = expose(writer.change_rows)
    os.fsync = delay(os.fsync)
    Path.replace = delay(Path.replace)  # type: ignore[method-assign]
    cli.main()


if __name__ == "__main__":
    main()

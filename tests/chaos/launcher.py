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

from publisher import cli, publishing
from publisher.dispatch.files import FileDispatcher
from publisher.dispatch.kafka import KafkaDispatcher
from publisher.journal.manifest import Journal
from tests.chaos.marks import during

DISK_SECONDS = 0.005


def late(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, some time later."""

    def done(*words: Any) -> Any:
        time.sleep(DISK_SECONDS)
        return function(*words)

    return done


def main() -> None:
    """Marks what the driver does; the tasks have their marks by ``tests.chaos.daemon``."""
    named: list[tuple[Any, str, str]] = [
        (Journal, "commit", "commit"),
        (Journal, "complete", "rename"),
        (FileDispatcher, "dispatch", "dispatch"),
        (KafkaDispatcher, "dispatch", "dispatch"),
        (publishing.Publishing, "_acknowledged", "acknowledge"),
    ]
    for owner, function, phase in named:
        setattr(owner, function, during(phase, getattr(owner, function)))
    os.fsync = late(os.fsync)
    Path.replace = late(Path.replace)  # type: ignore[method-assign]
    cli.main()


if __name__ == "__main__":
    main()

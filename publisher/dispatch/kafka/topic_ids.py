"""The ids of a job's topics, kept beside its journals: a topic that was created again has another id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from publisher.errors import FatalError
from publisher.journal.durable import read_versioned_file, write_durably

if TYPE_CHECKING:
    from publisher.dispatch.kafka.topic_admin import KafkaTopics

_FILE = "topics.json"
_FORMAT = 1
_REMEDY = "remove it if no topic was deleted and created again"


def refuse_replaced(topics: KafkaTopics, root: Path, used: Iterable[str] = ()) -> None:
    """Refuses topics that were deleted and created again; remembers the ids of the topics in ``used``.

    ``root`` is the directory of the job's journals.

    Raises:
        FatalError: A topic has another id than before, or the file of the ids is damaged.
        UnreachableError: The brokers do not answer.
    """
    path = root / _FILE
    known = read_versioned_file(path, _FORMAT, _decode, _REMEDY) or {}
    ids = topics.ids({*known, *used} & topics.partitions.keys())
    for name, id_ in ids.items():
        if known.get(name, id_) != id_:
            raise FatalError(
                f"topic {name} was deleted and created again: its id is {id_} instead of {known[name]}, "
                "and the documents that were sent before are gone; nothing was sent. Run `xds-publisher "
                "verify -c JOB.toml --repair --baseline`, which publishes the rows of [tables] again and "
                f"accepts the topic; or, if consumers do not need the earlier documents, remove {path}"
            )
    if ids.items() - known.items():
        write_durably(path, json.dumps({"format": _FORMAT, "topics": known | ids}))


def _decode(content: dict[str, Any]) -> dict[str, str]:
    return {str(name): str(id_) for name, id_ in content["topics"].items()}


@contextmanager
def accept_replaced(root: Path) -> Iterator[None]:
    """Forgets the ids of the topics for a repair; remembers them again if it fails."""
    path = root / _FILE
    stored = path.read_text() if path.exists() else None
    path.unlink(missing_ok=True)
    try:
        yield
    except BaseException:
        if stored is not None:
            write_durably(path, stored)
        raise

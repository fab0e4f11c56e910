"""Rejected records as Kafka records of a separate topic.

The value is the raw record of the source, as JSON text if it has columns; the headers hold the reason.
Like the documents of a lane, these records are sent with a progress token.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from publisher.dispatch.kafka.progress_tokens import REJECTS_LANE
from publisher.dispatch.kafka.records import RECOVERED, Batch, DeadLetter, Header

HEADERS = ("event-id", "source", "position", "reason", "detail", "reject-id")
"""Headers of a record, all UTF-8; a record that is too large for the topic has an empty value and the
additional header ``raw-bytes``."""
_OVERHEAD = 1_000
"""Upper limit of a record's bytes besides value and headers."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The rejects of a run, read from its ``rejects.jsonl``; the number of a reject is its line, from 0.

    ``limit`` is the maximum size in bytes that the topic accepts.
    """

    rejects: Path
    topic: str
    limit: int
    lane: str = REJECTS_LANE
    id_prefixes: Mapping[str, str] = field(default_factory=dict)
    """The beginning of the event ids of each source, by its name."""
    recovered: bool = False
    """True if the topic may have the rejects already."""

    def count(self) -> int:
        """Counts the rejects; a run without rejects has no file."""
        if not self.rejects.exists():
            return 0
        with self.rejects.open("rb") as file:
            return sum(1 for _ in file)

    def batches(self, start: int, size: int, _refused: Collection[int] = ()) -> Iterator[Batch]:
        """Reads the rejects from number ``start`` on in batches of at most ``size``."""
        with self.rejects.open(encoding="utf-8", newline="\n") as file:
            lines = islice(file, start, None)
            while records := [self._record(json.loads(line)) for line in islice(lines, size)]:
                start += len(records)
                yield Batch(start, len(records), (self.topic,), records)

    def _record(self, entry: dict[str, Any]) -> DeadLetter:
        event_id = f"{self.id_prefixes[entry['source']]}:{entry['position']}"
        names = ("source", "position", "reason", "detail", "id")
        texts = (event_id, *(entry.get(name) for name in names))
        headers: list[Header] = [
            (name, str(text or "").encode()) for name, text in zip(HEADERS, texts, strict=True)
        ]
        if self.recovered:
            headers.append(RECOVERED)
        raw = (entry["raw"] or "").encode()
        length = len(raw) + sum(len(name) + len(value or b"") for name, value in headers)
        if length + _OVERHEAD > self.limit:
            headers.append(("raw-bytes", str(len(raw)).encode()))
            raw = b""
        return None, raw, headers

"""Rejected records as Kafka records of a topic of their own.

The value is the raw record as the source had it, as JSON text where it has columns; what became of it
is in the headers.  They are sent with a progress token, as documents of a lane are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from publisher.dispatch.kafka.records import RECOVERED, Batch, DeadLetter, Header

LANE = "rejects"
"""In place of a lane's number, in tokens and transactional ids."""
HEADERS = ("event-id", "source", "position", "reason", "detail")
"""Headers of a record, all UTF-8.  ``raw-bytes`` besides where the record was too large for the topic and
its value is empty."""
_OVERHEAD = 1_000
"""Bytes of a record beside value and headers, rather more than less."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The rejects of a run, from its ``rejects.jsonl``; one is numbered by its line, from 0.

    ``limit`` is what the topic takes, bytes.
    """

    rejects: Path
    topic: str
    limit: int
    lane: str = LANE
    recovered: bool = False
    """Whether the topic may have them already."""

    def count(self) -> int:
        """How many there are."""
        with self.rejects.open("rb") as file:
            return sum(1 for _ in file)

    def batches(self, start: int, most: int, _left_out: Collection[int] = ()) -> Iterator[Batch]:
        """The rejects from number ``start`` on, at most ``most`` in a batch."""
        with self.rejects.open(encoding="utf-8", newline="\n") as file:
            lines = islice(file, start, None)
            while records := [self._record(json.loads(line)) for line in islice(lines, most)]:
                start += len(records)
                yield Batch(start, (self.topic,), records)

    def _record(self, entry: dict[str, Any]) -> DeadLetter:
        event_id = f"{entry['source']}:{entry['position']}"
        texts = (event_id, entry["source"], entry["position"], entry["reason"], entry["detail"])
        headers: list[Header] = [
            (name, str(text or "").encode()) for name, text in zip(HEADERS, texts, strict=True)
        ]
        if self.recovered:
            headers.append(RECOVERED)
        raw = (entry["raw"] or "").encode()
        size = len(raw) + sum(len(name) + len(value or b"") for name, value in headers)
        if size + _OVERHEAD > self.limit:
            headers.append(("raw-bytes", str(len(raw)).encode()))
            raw = b""
        return None, raw, headers

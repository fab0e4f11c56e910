"""The log of a following publisher: one line for each poll, as text or as JSON.

Lines contain counts and names, never values of rows; only lines of a trace contain values (see ``trace``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TextIO

from publisher.console import printable
from publisher.errors import PublisherError
from publisher.model.change import Outcome
from publisher.observing.contract import Poll


def utc_now() -> datetime:
    """Returns the current time in UTC."""
    return datetime.now(UTC)


class LogLines:
    """Writes the log to a stream.  ``as_json``: a JSON object on each line, ASCII."""

    def __init__(
        self, stream: TextIO, *, as_json: bool = False, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._stream = stream
        self._json = as_json
        self._clock = clock

    def on_start(self, job: str, target: str, notes: Sequence[str]) -> None:
        """See ``Observer``."""
        fields: dict[str, object] = {"job": job, "target": target, "notes": list(notes)}
        self._write("begun", fields, f"{job} publishes continuously to {target}", *notes)

    def on_poll(self, poll: Poll) -> None:
        """See ``Observer``."""
        notes = [f"{poll.report.run} note: {note}" for note in poll.report.notes]
        self._write("poll", poll_fields(poll), poll_text(poll), *notes)

    def on_idle(self, waiting: int, oldest: float | None) -> None:
        """Writes no line: no poll took place."""

    def on_failure(self, error: PublisherError, again_in: float | None) -> None:
        """See ``Observer``."""
        fields: dict[str, object] = {
            "error": error.message,
            "exit_code": error.exit_code,
            "again_in": None if again_in is None else round(again_in, 1),
        }
        pause = "" if again_in is None else f"; retrying in {again_in:g} s"
        self._write("failed", fields, f"{error.message}{pause}")

    def on_stop(self, reason: str) -> None:
        """See ``Observer``."""
        self._write("ended", {"reason": reason}, f"ended: {reason}")

    def note(self, text: str) -> None:
        """Reports a problem of the observers, such as metrics that cannot be written."""
        self._write("note", {"text": text}, text)

    def trace(self, level: int, text: str) -> None:
        """Writes a line of the trace."""
        self._write("trace", {"level": level, "text": text}, text)

    def _write(self, event: str, fields: Mapping[str, object], *texts: str) -> None:
        time = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        if self._json:
            lines = [json.dumps({"time": time, "event": event, **fields})]
        else:
            lines = [printable(f"{time} {text}") for text in texts]
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()


def poll_text(poll: Poll) -> str:
    """Describes a poll in one line: the count of ``published`` and the other counts that are not 0."""
    report = poll.report
    parts = [report.run, f"read {report.read:,}"]
    parts += [
        f"{outcome} {count:,}"
        for outcome, count in report.outcomes.items()
        if count or outcome == Outcome.PUBLISHED.label
    ]
    parts.append(f"documents {report.documents:,}")
    if report.operations:
        descending = sorted(report.operations.items(), key=lambda item: -item[1])
        parts.append(f"({', '.join(f'{count:,} {kind}' for kind, count in descending)})")
    if poll.oldest is not None:
        parts.append(f"lag {poll.oldest:.1f} s")
    return " ".join([*parts, f"in {poll.seconds:.1f} s"])


def poll_fields(poll: Poll) -> dict[str, object]:
    """Describes a poll for machines, with all outcomes, reasons and phases; times in seconds."""
    report = poll.report
    return {
        "run": report.run,
        "read": report.read,
        "outcomes": report.outcomes,
        "reasons": report.reasons,
        "documents": report.documents,
        "operations": report.operations,
        "bytes": report.bytes,
        "statuses": report.statuses,
        "waiting": poll.waiting,
        "lag": None if poll.oldest is None else round(poll.oldest, 3),
        "seconds": round(poll.seconds, 3),
        "phases": report.seconds,
        "transactions": poll.transactions,
        "retries": poll.retries,
        "notes": list(report.notes),
    }

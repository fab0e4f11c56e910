"""One line for each poll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from publisher.errors import PublisherError
from publisher.observing.contract import Poll


class LogLines:
    """Writes lines to a stream."""

    def __init__(self, stream: TextIO, *, as_json: bool = False) -> None:
        self._stream = stream
        self._json = as_json

    def begun(self, job: str, target: str, notes: Sequence[str]) -> None:
        """See ``Observer``."""
        self._say(f"following {job} to {target}")
        for note in notes:
            self._say(note)

    def polled(self, poll: Poll) -> None:
        """See ``Observer``."""
        self._say(f"{poll.report.run} read {poll.report.read} in {poll.seconds:.2f} s {poll.report.seconds}")

    def idle(self, waiting: int, oldest: float | None) -> None:
        """See ``Observer``."""

    def failed(self, error: PublisherError, again_in: float) -> None:
        """See ``Observer``."""
        self._say(f"{error.message}; again in {again_in:.0f} s")

    def ended(self, reason: str) -> None:
        """See ``Observer``."""
        self._say(reason)

    def _say(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()

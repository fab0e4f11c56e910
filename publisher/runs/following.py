"""The instance that follows a job, and requests to it: to poll now, or to repair between two polls.

It holds a shared lock on a file in the ledger directory.  A request is a row of the ledger, in which the
instance writes the answer.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from publisher.errors import FatalError, PublisherError, RunningError, UnreachableError
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.model.plain import restore
from publisher.runs.notes import with_notes

_LOCK = "follow.lock"
"""Holds who follows the job; the time of its last change is the last sign of life."""
_PAUSE = 0.05
_LONGEST_POLL = 30.0
"""Seconds after which a program no longer waits for the poll that it has requested."""


@contextmanager
def mark_following(root: Path) -> Iterator[Callable[[], None]]:
    """Shows other programs that an instance follows the job with this ledger directory.

    Returns a function that gives a sign of life.
    """
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        place = {"host": socket.gethostname(), "machine": _machine()}
        who = {**place, "process": os.getpid(), "since": since}
        os.ftruncate(descriptor, os.pwrite(descriptor, json.dumps(who).encode(), 0))
        yield lambda: os.utime(descriptor)
    finally:
        os.close(descriptor)


def is_followed(root: Path) -> bool:
    """Tests whether an instance follows the job.

    Raises:
        RunningError: One does, on another machine that shares the disk.
    """
    with suppress(FileNotFoundError), (root / _LOCK).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _refuse_other_machine(root)
            return True
    return False


def _refuse_other_machine(root: Path) -> None:
    with suppress(OSError, ValueError, KeyError):
        who = json.loads((root / _LOCK).read_text(encoding="utf-8"))
        if who["machine"] != _machine():
            raise RunningError(
                f"the job is followed on another machine ({describe_follower(root)}), and a ledger serves "
                "one machine at a time: stop that instance, then start this command again"
            )


def _machine() -> str:
    """Identifies this machine: its containers have different host names."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return socket.gethostname()


def describe_follower(root: Path) -> str:
    """Describes the newest instance that follows the job: host, process, start, last sign of life."""
    path = root / _LOCK
    with suppress(OSError, ValueError, KeyError):
        who = json.loads(path.read_text(encoding="utf-8"))
        seconds = max(0, round(time.time() - path.stat().st_mtime))
        return (
            f"publish --follow on {who['host']}, process {who['process']}, since {who['since']}, last sign "
            f"of life {seconds:,} s ago"
        )
    return f"publish --follow, which holds the lock of {path}"


@dataclass(frozen=True, slots=True)
class Request:
    """A poll or a repair that another program asks of the running instance."""

    id: int
    is_poll: bool = False
    baseline: bool = False
    examples: int = 0


def request_poll(ledger: Ledger) -> RunReport | None:
    """Requests a poll and waits for the answer; ``None`` if no instance follows the job any more.

    Raises:
        RunningError: The instance does not answer in time.
        UnreachableError: The instance cannot reach a system.
        FatalError: The instance could not poll.
    """
    follower = describe_follower(ledger.root)
    report = send_request(ledger, {"is_poll": True}, _LONGEST_POLL)
    if report is None:
        return None
    note = (
        f"the running instance of job {ledger.job} ({follower}) has polled, with the settings that it "
        "started with"
    )
    return with_notes(restore(RunReport, report), [note])


def send_request(
    ledger: Ledger, content: Mapping[str, Any], seconds: float
) -> dict[str, Any] | None:
    """Writes a request, and waits for the report of the instance, see ``request_poll``."""
    if ledger.identity() is None:  # it has just begun
        return None
    deadline = time.monotonic() + seconds
    number = ledger.add_request(json.dumps(content))
    try:
        while (text := ledger.answer_to(number)) is None:
            if not is_followed(ledger.root):
                return None
            if time.monotonic() > deadline:
                raise RunningError(
                    f"the job is followed by another instance ({describe_follower(ledger.root)}), which has "
                    f"not finished a poll within {seconds:g} s: it publishes what is pending when it goes "
                    "on; see its log, or stop it and start this command again"
                )
            time.sleep(_PAUSE)
    finally:
        ledger.remove_request(number)
    answer: dict[str, Any] = json.loads(text)
    if "message" in answer:
        error = UnreachableError if answer["later"] else FatalError
        raise error(f"the running instance failed: {answer['message']}")
    report: dict[str, Any] = answer["report"]
    return report


def next_request(ledger: Ledger) -> Request | None:
    """Returns the oldest request without an answer; ``None`` if there is none."""
    for number, content in ledger.open_requests():
        return restore(Request, {"id": number, **json.loads(content)})
    return None


def answer_request(ledger: Ledger, request: Request, report: Any) -> None:
    """Answers a request with a report, or with the error if it failed."""
    if isinstance(report, PublisherError):
        answer = {"message": report.message, "later": isinstance(report, UnreachableError)}
    else:
        answer = {"report": asdict(report)}
    ledger.answer_request(request.id, json.dumps(answer, default=str))

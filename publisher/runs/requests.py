"""Requests to the running instance of a job: to poll now, or to repair, which it does between two polls.

A request is a row of the ledger, in which the instance writes the answer.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from publisher.errors import FatalError, PublisherError, RunningError, UnreachableError
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.model.plain import restore
from publisher.runs.following import describe_follower, is_followed
from publisher.runs.notes import with_notes
from publisher.runs.verify import VerifyReport

_PAUSE = 0.05
_LONGEST_POLL = 30.0
"""Seconds after which a program no longer waits for the poll that it has requested."""


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair."""

    verification: VerifyReport
    """The comparison before the repair."""
    run: RunReport | None = None
    """The run that published the differences; ``None`` if there was nothing to publish."""


@dataclass(frozen=True, slots=True)
class Request:
    """What another program asks of the running instance: a poll, or a repair."""

    id: int
    is_poll: bool = False
    baseline: bool = False
    examples: int = 0


def request_repair(ledger: Ledger, *, baseline: bool, examples: int) -> RepairReport | None:
    """Requests a repair and waits for the answer; ``None`` if no instance follows the job any more.

    Raises:
        FatalError: The instance could not repair.
    """
    report = _request(ledger, {"baseline": baseline, "examples": examples}, math.inf)
    return None if report is None else restore(RepairReport, report)


def request_poll(ledger: Ledger) -> RunReport | None:
    """Requests a poll and waits for the answer; ``None`` if no instance follows the job any more.

    Raises:
        RunningError: The instance does not answer in time.
        UnreachableError: The instance cannot reach a system.
        FatalError: The instance could not poll.
    """
    follower = describe_follower(ledger.root)
    report = _request(ledger, {"is_poll": True}, time.monotonic() + _LONGEST_POLL)
    if report is None:
        return None
    note = (
        f"the running instance of job {ledger.job} ({follower}) has polled, with the settings that it "
        "started with"
    )
    return with_notes(restore(RunReport, report), [note])


def _request(ledger: Ledger, content: Mapping[str, Any], deadline: float) -> dict[str, Any] | None:
    """Writes a request, and waits for the report of the instance."""
    if ledger.identity() is None:  # it has just begun
        return None
    number = ledger.add_request(json.dumps(content))
    try:
        while (answer := ledger.answer_to(number)) is None:
            if not is_followed(ledger.root):
                return None
            if time.monotonic() > deadline:
                raise RunningError(
                    f"the job is followed by another instance ({describe_follower(ledger.root)}), which has "
                    f"not finished a poll within {_LONGEST_POLL:g} s: it publishes what is pending when it "
                    "goes on; see its log, or stop it and start this command again"
                )
            time.sleep(_PAUSE)
        return _report_in(answer)
    finally:
        ledger.remove_request(number)


def next_request(ledger: Ledger) -> Request | None:
    """Returns the oldest request without an answer; ``None`` if there is none."""
    for number, content in ledger.open_requests():
        return restore(Request, {"id": number, **json.loads(content)})
    return None


def answer(
    ledger: Ledger, request: Request, report: RepairReport | RunReport | PublisherError
) -> None:
    """Answers a request, with the error if it failed."""
    content: dict[str, Any]
    if isinstance(report, PublisherError):
        content = {"message": report.message, "later": isinstance(report, UnreachableError)}
    else:
        content = {"report": asdict(report)}
    ledger.answer_request(request.id, json.dumps(content, default=str))


def _report_in(answer: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(answer)
    if "message" in content:
        error = UnreachableError if content["later"] else FatalError
        raise error(f"the running instance failed: {content['message']}")
    report: dict[str, Any] = content["report"]
    return report

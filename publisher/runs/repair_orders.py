"""Orders of repairs and polls for the running instance of a job, which carries them out between two polls.

An order is a file in the job's journal directory; the instance
replaces it with a file that holds the answer.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from publisher.errors import FatalError, PublisherError, RunningError, UnreachableError
from publisher.journal.conservation import RunReport
from publisher.journal.durable import link_or_copy, read_versioned_file, write_durably
from publisher.model.plain import restore
from publisher.runs.following import describe_follower, is_followed
from publisher.runs.notes import with_notes
from publisher.runs.verify import VerifyReport

_FORMAT = 1
_FOLDER = "repairs"
_ORDER, _ANSWER = ".order.json", ".answer.json"
_AGAIN = "start the command again"
_PAUSE = 0.1
_LONGEST_POLL = 30.0
"""Seconds after which a program no longer waits for the poll that it has ordered."""


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair."""

    verification: VerifyReport
    """The comparison before the repair."""
    run: RunReport | None = None
    """The run that published the differences; ``None`` if there was nothing to publish."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order that waits for the running instance: a poll, or a repair."""

    path: Path
    is_poll: bool = False
    baseline: bool = False
    examples: int = 0


def order_repair(root: Path, *, baseline: bool, examples: int) -> RepairReport | None:
    """Orders a repair and waits for the answer; ``None`` if no instance follows the job any more.

    Raises:
        FatalError: The instance could not repair.
    """
    report = _order(root, {"baseline": baseline, "examples": examples}, math.inf)
    return None if report is None else restore(RepairReport, report)


def order_poll(root: Path, job: str) -> RunReport | None:
    """Orders a poll and waits for the answer; ``None`` if no instance follows the job any more.

    Raises:
        RunningError: The instance does not answer in time.
        UnreachableError: The instance cannot reach a system.
        FatalError: The instance could not poll.
    """
    follower = describe_follower(root)
    report = _order(root, {"poll": True}, time.monotonic() + _LONGEST_POLL)
    if report is not None:
        note = f"the running instance of job {job} ({follower}) has polled, with the settings it started with"
        return with_notes(restore(RunReport, report), [note])
    return None


def _order(root: Path, content: Mapping[str, Any], deadline: float) -> dict[str, Any] | None:
    """Writes an order, and waits for the report of the instance."""
    folder = root / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    order, answer = folder / f"{name}{_ORDER}", folder / f"{name}{_ANSWER}"
    write_durably(order, json.dumps({"format": _FORMAT, **content}))
    try:
        while not answer.exists():
            if not is_followed(root):
                return None
            if time.monotonic() > deadline:
                raise RunningError(
                    f"the job is followed by another instance ({describe_follower(root)}), which has not "
                    f"finished a poll within {_LONGEST_POLL:g} s: it publishes what is pending when it goes "
                    "on; see its log, or stop it and start this command again"
                )
            time.sleep(_PAUSE)
        return _read_answer(answer)
    finally:
        order.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)


def has_order(root: Path) -> bool:
    """Tests whether an order waits."""
    return any((root / _FOLDER).glob(f"*{_ORDER}"))


def next_order(root: Path) -> Order | None:
    """Returns the oldest order; ``None`` if there is none.

    Raises:
        FatalError: The order is damaged.  Its file is set aside, and answered with the message.
    """
    paths = sorted((root / _FOLDER).glob(f"*{_ORDER}"))
    if not paths:
        return None
    path = paths[0]
    try:
        return read_versioned_file(path, _FORMAT, lambda content: _decode(path, content), _AGAIN)
    except FatalError as error:
        link_or_copy(path, damaged := path.with_name(f"{path.name}.damaged"))
        problem = FatalError(f"{error.message}; it is kept as {damaged.name}")
        answer_order(Order(path), problem)
        raise problem from error


def _decode(path: Path, content: Mapping[str, Any]) -> Order:
    if content.get("poll") is True:
        return Order(path, is_poll=True)
    baseline, examples = content["baseline"], content["examples"]
    if not (isinstance(baseline, bool) and isinstance(examples, int)):
        raise TypeError("baseline is no truth value, or examples no number")
    return Order(path, baseline=baseline, examples=examples)


def answer_order(order: Order, answer: RepairReport | RunReport | PublisherError) -> None:
    """Answers an order, with the error if it failed, unless nobody waits for the answer any more."""
    if not order.path.exists():
        return
    content: dict[str, Any]
    if isinstance(answer, PublisherError):
        content = {"message": answer.message}
        if isinstance(answer, UnreachableError):
            content["later"] = True
    else:
        content = {"report": asdict(answer)}
    text = json.dumps({"format": _FORMAT, **content}, default=str)
    write_durably(order.path.with_name(order.path.name.removesuffix(_ORDER) + _ANSWER), text)
    order.path.unlink(missing_ok=True)


def _read_answer(path: Path) -> dict[str, Any]:
    content = read_versioned_file(path, _FORMAT, dict, f"remove it, and {_AGAIN}") or {}
    if "message" in content:
        error = UnreachableError if content.get("later") else FatalError
        raise error(f"the running instance failed: {content['message']}")
    report: dict[str, Any] = content["report"]
    return report

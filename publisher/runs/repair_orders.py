"""Orders of repairs for the running instance of a job, which carries them out between two polls.

An order is a file in the job's journal directory; the instance
replaces it with a file that holds the answer.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.journal.conservation import RunReport
from publisher.journal.durable import read_versioned_file, write_durably
from publisher.model.plain import restore
from publisher.runs.following import is_followed
from publisher.runs.verify import VerifyReport

_FORMAT = 1
_FOLDER = "repairs"
_ORDER, _ANSWER = ".order.json", ".answer.json"
_AGAIN = "start the repair again"
_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair."""

    verification: VerifyReport
    """The comparison before the repair."""
    run: RunReport | None = None
    """The run that published the differences; ``None`` if there was nothing to publish."""


@dataclass(frozen=True, slots=True)
class RepairOrder:
    """An order that waits for the running instance."""

    path: Path
    baseline: bool
    examples: int


def order_repair(root: Path, *, baseline: bool, examples: int) -> RepairReport | None:
    """Orders a repair and waits for the answer; ``None`` if no instance follows the job any more.

    Raises:
        FatalError: The instance could not repair.
    """
    folder = root / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    order, answer = folder / f"{name}{_ORDER}", folder / f"{name}{_ANSWER}"
    content = {"format": _FORMAT, "baseline": baseline, "examples": examples}
    write_durably(order, json.dumps(content))
    try:
        while not answer.exists():
            if not is_followed(root):
                return None
            time.sleep(_PAUSE)
        return _read_answer(answer)
    finally:
        order.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)


def next_order(root: Path) -> RepairOrder | None:
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
        damaged = path.replace(path.with_name(f"{path.name}.damaged"))
        problem = FatalError(f"{error.message}; it is kept as {damaged.name}")
        _write_answer(path, {"message": problem.message})
        raise problem from error


def _decode(path: Path, content: Mapping[str, Any]) -> RepairOrder:
    baseline, examples = content["baseline"], content["examples"]
    if not (isinstance(baseline, bool) and isinstance(examples, int)):
        raise TypeError("baseline is no truth value, or examples no number")
    return RepairOrder(path, baseline, examples)


def answer_order(order: RepairOrder, answer: RepairReport | str) -> None:
    """Answers an order, with a message if the repair failed."""
    content = {"message": answer} if isinstance(answer, str) else {"report": asdict(answer)}
    _write_answer(order.path, content)
    order.path.unlink(missing_ok=True)


def _write_answer(order: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps({"format": _FORMAT, **content}, default=str)
    write_durably(order.with_name(order.name.removesuffix(_ORDER) + _ANSWER), text)


def _read_answer(path: Path) -> RepairReport:
    content = read_versioned_file(path, _FORMAT, dict, f"remove it, and {_AGAIN}") or {}
    if "message" in content:
        raise FatalError(f"the running instance could not repair: {content['message']}")
    return restore(RepairReport, content["report"])

"""Orders of repairs for the running instance of a job, which carries them out between two polls.

An order is a file in the job's journal directory; the instance
replaces it with a file that holds the answer.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from publisher.errors import FatalError
from publisher.journal.conservation import RunReport
from publisher.journal.durable import read_versioned, write_durably
from publisher.model.plain import restore
from publisher.runs.following import is_followed
from publisher.runs.verify import VerifyReport

_FORMAT = 1
_FOLDER = "repairs"
_ORDER, _ANSWER = ".order.json", ".answer.json"
_REMEDY = "remove it, and start the repair again"
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
    """Returns the oldest order; ``None`` if there is none.  Raises ``FatalError`` if it is damaged."""
    paths = sorted((root / _FOLDER).glob(f"*{_ORDER}"))
    if not paths:
        return None
    return read_versioned(
        paths[0], _FORMAT, lambda c: RepairOrder(paths[0], c["baseline"], c["examples"]), _REMEDY
    )


def answer_order(order: RepairOrder, answer: RepairReport | str) -> None:
    """Answers an order, with a message if the repair failed."""
    content = {"message": answer} if isinstance(answer, str) else {"report": asdict(answer)}
    name = order.path.name.removesuffix(_ORDER) + _ANSWER
    text = json.dumps({"format": _FORMAT, **content}, default=str)
    write_durably(order.path.with_name(name), text)
    order.path.unlink(missing_ok=True)


def _read_answer(path: Path) -> RepairReport:
    content = read_versioned(path, _FORMAT, dict, _REMEDY) or {}
    if "message" in content:
        raise FatalError(f"the running instance could not repair: {content['message']}")
    return restore(RepairReport, content["report"])

"""The trials of one form, one after the other, until enough records were read."""

from __future__ import annotations

import json
import resource
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.forms import FORMS
from tests.fuzz.reading import PromiseError, peaks
from tests.fuzz.trial import Tally, Trial, case_of, fails, smaller, try_case

MOST_FAILURES = 5
"""Failures of a form after which it is not tried on."""
PATIENCE = 30.0
"""Seconds to look for a smaller file that fails."""
_ADDRESSES = 6 << 30
"""Bytes of address space: what would take more fails there, and not the machine."""
TRIALS = 40
"""Trials for each hundred records, at the most: files may be refused."""


class Failure(NamedTuple):
    """A promise that does not hold."""

    trial: str
    """What ``--trial`` takes to do it again."""
    why: str
    kept: str
    """Where the smallest file lies that fails."""


Say = Callable[[str, object], None]


def in_process(
    pipe: Connection, name: str, seed: str, records: int, trial: str | None, keep: Path
) -> None:
    """The trials in a process of their own; says at last what came of them, and the peak in bytes."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    tally = work(name, seed, records, trial, keep, lambda *failure: pipe.send(failure))
    pipe.send(("done", (tally, max(peaks, default=0))))


def work(name: str, seed: str, records: int, trial: str | None, keep: Path, say: Say) -> Tally:
    """Runs trials and returns their totals; reports each failure after the start of its trial."""
    form = next(form for form in FORMS if form.name == name)
    tally, failures = Tally(), 0
    trials = [trial] if trial else [f"{seed}-{n}" for n in range(max(3, records * TRIALS // 100))]
    with tempfile.TemporaryDirectory(prefix="xds-fuzz-") as folder:
        for one in trials:
            if tally.records >= records or failures >= MOST_FAILURES:
                break
            say("begins", one)
            case = None
            try:
                case = case_of(form, one, Path(folder))
                try_case(case, Path(folder), tally)
            except PromiseError as broken:
                failures += 1
                say("failure", _keep(one, str(broken), case, Path(folder), keep))
    return tally


def _keep(trial: str, why: str, case: Trial | None, folder: Path, keep: Path) -> Failure:
    """Keeps the smallest file that fails, and what it was made of."""
    if case is None:  # the valid file
        return Failure(trial, why[:2000], "")
    least = smaller(case, folder, PATIENCE)
    why = fails(least, folder) or why
    place = keep / f"{case.form.name.replace(' ', '-')}-{trial}"
    place.mkdir(parents=True, exist_ok=True)
    (place / case.form.file).write_bytes(least.data())
    valid = case.made.head + b"".join(piece.data for piece in case.made.pieces)
    (place / f"valid-{case.form.file}").write_bytes(
        case.form.pack(valid) if case.form.pack else valid
    )
    failure = {"trial": trial, "why": why, "damage": case.what, "cut": case.cut}
    (place / "failure.json").write_text(json.dumps(failure, ensure_ascii=False, indent=1))
    return Failure(trial, why[:2000], str(place))

"""Kills of the publisher, by phase, until a known log is published completely."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from publisher.engine.contract import EngineName
from publisher.errors import UnreachableError
from tests.chaos.marks import PARTS, PHASES, TRANSACTION, Marks
from tests.chaos.process import LAUNCHER, Started

ENGINES: tuple[EngineName, ...] = ("spark", "local")
ON_ENGINES = ("publish", "replay", "recover")
"""Commands that run on an engine."""
BETWEEN = "between"
"""No phase was open: while it started, say."""
REFUSED = "refused"
"""It ended by itself: it must not publish."""
MORE = 20
"""Kills beyond those that were asked for, until every phase has one."""
_LONGEST = 1.0
_FIRST_GUESS = 0.05
_PATIENCE = 600.0
"""Seconds: beside other tests Spark has needed three minutes from its start to the first transaction."""


@dataclass
class Killer:
    """Starts publishers and kills them; counts kills by the phase that they hit."""

    rng: random.Random
    marks: Marks
    wanted: Sequence[str] = (*PHASES, TRANSACTION)
    kills: Counter[str] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)
    """Kills that were meant for a phase, whatever they hit."""
    starts: int = 0

    @property
    def count(self) -> int:
        """Kills, whatever they hit."""
        return sum(number for name, number in self.kills.items() if name not in PARTS)

    def missing(self) -> list[str]:
        """Phases that no kill has hit."""
        return [name for name in self.wanted if not self.kills[name]]

    def goes_on(self, kills: int, *, blind: Callable[[], bool] = lambda: False) -> bool:
        """True while more kills are needed: so many, then until each phase has one and none is ``blind``."""
        if self.count < kills:
            return True
        return self.count < kills + MORE and (bool(self.missing()) or blind())

    def run(
        self,
        words: list[str],
        *,
        kill: bool,
        refusal: str | None = None,
        engine: EngineName | None = None,
    ) -> str | None:
        """One start on an engine (``None``: on any), which is killed if that is wanted.

        Returns the phase of the kill, ``None`` if the publisher ended by itself, or ``REFUSED`` if it ended
        with an error that has the text ``refusal``.

        Raises:
            RuntimeError: It ended with another error.
        """
        self.starts += 1
        self.marks.clear()
        words = self._on_engine(words, engine)
        with Started(words, module=LAUNCHER, marks=self.marks.path) as started:
            if kill and self._wait(started, self._choice()):
                started.kill()
                return self._count_kill()
            code, message = started.wait_for_end(_PATIENCE)
        if code and refusal is not None and refusal in message:
            return REFUSED
        if code:
            raise RuntimeError(f"{words} ended with {code}: {message}")
        return None

    def run_beside(self, words: list[str], kill: Callable[[], None]) -> int:
        """One start, in the course of which ``kill`` does it to somebody else; the exit code.

        Raises:
            RuntimeError: It ended with an error that waiting does not mend.
        """
        self.starts += 1
        self.marks.clear()
        words = self._on_engine(words, None)
        with Started(words, module=LAUNCHER, marks=self.marks.path) as started:
            if self._wait(started, self._choice()):
                self._count_kill()
                kill()
            code, message = started.wait_for_end(_PATIENCE)
        if code not in (0, UnreachableError.exit_code):
            raise RuntimeError(f"{words} ended with {code}: {message}")
        return code

    def _on_engine(self, words: list[str], engine: EngineName | None) -> list[str]:
        """The command on an engine: runs that one engine began are finished by the other."""
        if words[0] not in ON_ENGINES:
            return words
        return [*words, "--engine", engine or self.rng.choice(ENGINES)]

    def _choice(self) -> str:
        """The phase with the fewest kills, now and then any."""
        names = list(self.wanted)
        self.rng.shuffle(names)
        return min(names, key=lambda name: self.kills[name])

    def _wait(self, started: Started, wanted: str) -> bool:
        """Waits for a phase and a random moment of it; whether there is somebody to kill."""
        deadline = time.monotonic() + _PATIENCE
        while not self.marks.is_open(wanted):
            if started.process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                seen = ", ".join(self.marks.took) or "nothing"
                raise RuntimeError(f"no {wanted} in {_PATIENCE} s, but {seen}")
            if self.marks.take(0.2) and self.marks.last in ("read", "commit"):
                started.members()  # looked up before the moment comes
        took = min(_LONGEST, self.marks.took.get(wanted, _FIRST_GUESS))
        missed = max(0, self.tries[wanted] - self.kills[wanted])  # one slow time says too much
        self.tries[wanted] += 1
        time.sleep(self.rng.uniform(0, took / 2 ** min(missed, 10)))
        return started.process.poll() is None

    def _count_kill(self) -> str:
        self.marks.drain()
        last = self.marks.last
        if last in PARTS:
            self.kills[last] += 1
            last = PARTS[last]
        self.kills[last or BETWEEN] += 1
        return last or BETWEEN


def job_file(path: Path, source: str, sink: str) -> Path:
    """A job whose tasks have marks."""
    path.write_text(
        f"{source}\n{sink}\n"
        '[spark]\nmaster = "local[2]"\n"spark.python.daemon.module" = "tests.chaos.daemon"\n'
    )
    return path

"""What is killed, and what must be so when all is done."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.kills import BETWEEN, Killer, job_file
from tests.chaos.known_log import KnownLog, judged, texts
from tests.chaos.marks import PHASES, TRANSACTION, Marks
from tests.services.topics import Topics

EVENTS = 6_000
"""Rows of one portion; a portion or two make a run."""
SINK = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
transaction_size = 1500

[dispatch.kafka]
"linger.ms" = "0"
"""
_MORE = 20
"""Kills beyond those that were asked for, until every phase has one."""

Say = Callable[[str], None]


def silent(line: str) -> None:
    """Says nothing."""


@dataclass
class Verdict:
    """What a scenario has found: figures to print, and what is not as it must be."""

    name: str
    figures: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def kills(self, kills: Counter[str]) -> None:
        """Takes kills by phase; one without any is a problem."""
        self.figures["kills"] = sum(kills[name] for name in (*PHASES, BETWEEN))
        for name in (*PHASES, BETWEEN):
            self.figures[f"kills in {name}"] = kills[name]
            if not kills[name] and name != BETWEEN:
                self.problems.append(f"no kill hit {name}: more kills, or another seed")

    def topic(self, topics: Topics, topic: str, counts: Counter[int]) -> None:
        """Takes what a topic holds."""
        committed = topics.read(topic)
        aborted = len(topics.read(topic, "read_uncommitted")) - len(committed)
        found = judged(texts(committed), counts)
        self.figures |= {
            "records": len(committed),
            "values logged": sum(counts.values()),
            "lost": found.lost,
            "duplicated": found.duplicated,
            "out of order": found.out_of_order,
            "aborted records seen": aborted,
        }
        if not found.is_right:
            self.problems.append(f"the topic is not right: {found}")
        if not aborted:
            self.problems.append("blind: no aborted record was seen")

    def statuses(self, log: KnownLog) -> None:
        """Takes the rows of the log: all must be S."""
        self.figures["statuses"] = found = log.statuses()
        if set(found) != {"S"}:
            self.problems.append(f"rows are not all S: {found}")


@dataclass
class KillsToKafka:
    """The publisher is killed while it publishes to Kafka, with another number of lanes each time."""

    url: str
    topics: Topics
    work: Path
    seed: int
    events: int = EVENTS
    say: Say = silent

    def run(self, kills: int) -> Verdict:
        """At least so many kills, then until all is done."""
        rng = random.Random(self.seed)
        log = KnownLog(self.url, "known_log")
        topic = self.topics.make(3)
        sink = SINK.format(bootstrap=self.topics.bootstrap, topic=topic)
        job = job_file(self.work / f"{topic}.toml", log.source, sink)
        with killer(rng, self.work) as killing:
            while self._goes_on(killing, kills, topic):
                if log.statuses().get("N", 0) < self.events:
                    log.add(rng, self.events)
                self.say(f"{killing.run(_words(job, rng), kill=True)} {log.statuses()}")
            while log.statuses().get("N"):
                killing.run(_words(job, rng), kill=False)
        verdict = Verdict("publisher killed, to Kafka")
        verdict.kills(killing.kills)
        verdict.figures["kills in an open transaction"] = killing.kills[TRANSACTION]
        verdict.topic(self.topics, topic, log.counts)
        verdict.statuses(log)
        return verdict

    def _goes_on(self, killing: Killer, kills: int, topic: str) -> bool:
        if killing.count < kills:
            return True
        blind = killing.missing() or not self._aborted(topic)
        return bool(blind) and killing.count < kills + _MORE

    def _aborted(self, topic: str) -> int:
        seen = self.topics.read(topic, "read_committed", wait=False)
        return len(self.topics.read(topic, "read_uncommitted")) - len(seen)


@contextmanager
def killer(rng: random.Random, work: Path) -> Iterator[Killer]:
    """A killer with a pipe of its own."""
    with Marks(work / f"marks-{rng.randrange(1 << 30)}") as marks:
        yield Killer(rng, marks)


def _words(job: Path, rng: random.Random) -> list[str]:
    return ["publish", "-c", str(job), "--lanes", str(rng.randint(1, 4))]

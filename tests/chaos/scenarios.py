"""The scenarios: the process that is killed, and the state that must hold in the end."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from publisher.engine.contract import EngineName
from publisher.errors import UnreachableError
from tests.chaos.kills import BETWEEN, Killer, job_file
from tests.chaos.known_log import KnownLog, judge_documents, texts
from tests.chaos.marks import PARTS, PHASES, TRANSACTION, WRITTEN, Marks
from tests.services.kafka import KafkaCluster
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
FILES = """
[dispatch]
to = "files"
path = "{path}"

[run]
lanes = 3
"""
Say = Callable[[str], None]


def silent(line: str) -> None:
    """Says nothing."""


@dataclass
class Verdict:
    """The result of a scenario: figures to print, and problems."""

    name: str
    figures: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def kills(self, kills: Counter[str], phases: Sequence[str] = PHASES) -> None:
        """Takes kills by phase; one without any is a problem."""
        self.figures["kills"] = sum(kills[name] for name in kills if name not in PARTS)
        for name in (*phases, BETWEEN):
            self.figures[f"kills in {name}"] = kills[name]
            if not kills[name] and name != BETWEEN:
                self.problems.append(f"no kill hit {name}: more kills, or another seed")

    def topic(
        self, topics: Topics, topic: str, counts: Counter[int], *, blind: bool = True
    ) -> None:
        """Takes what a topic holds; without aborted records the test is ``blind``."""
        committed = topics.read(topic)
        aborted = len(topics.read(topic, "read_uncommitted")) - len(committed)
        self.figures["records"] = len(committed)
        self.documents("the topic", texts(committed), counts)
        self.figures["aborted records seen"] = aborted
        if blind and not aborted:
            self.problems.append("blind: no aborted record was seen")

    def directories(self, killed: Path, whole: Path, counts: Counter[int]) -> None:
        """Takes the directories of runs, beside those of undisturbed ones: the same bytes."""
        runs, undisturbed = _published_runs(killed), _published_runs(whole)
        documents = [document for parts in runs for document in lines(parts)]
        self.figures |= {"runs": len(runs), "documents": len(documents)}
        self.documents("the files", documents, counts)
        self.figures["bytes equal"] = runs == undisturbed
        if runs != undisturbed:
            self.problems.append("the bytes are not those of an undisturbed run")

    def documents(
        self, where: str, found: Iterable[tuple[int, bytes]], counts: Counter[int]
    ) -> None:
        """Takes documents (partition, text): all that was logged must be there once and in order."""
        seen = judge_documents(found, counts)
        self.figures |= {
            "values logged": sum(counts.values()),
            "lost": seen.lost,
            "duplicated": seen.duplicated,
            "out of order": seen.out_of_order,
        }
        if not seen.is_right:
            self.problems.append(f"{where}: not right: {seen}")

    def statuses(self, log: KnownLog) -> None:
        """Takes the rows of the log: all must be S."""
        self.figures["statuses"] = found = log.statuses()
        if set(found) != {"S"}:
            self.problems.append(f"rows are not all S: {found}")


@dataclass(frozen=True)
class KafkaJob:
    """A job that publishes a known log to a topic."""

    log: KnownLog
    topic: str
    path: Path

    @classmethod
    def make(cls, url: str, table: str, topics: Topics, work: Path, rest: str = "") -> Self:
        """Makes table, topic and job file; ``rest`` is added to this."""
        log, topic = KnownLog(url, table), topics.make(3)
        sink = SINK.format(bootstrap=topics.bootstrap, topic=topic)
        return cls(log, topic, job_file(work / f"{topic}.toml", log.source, sink + rest))

    def words(self, rng: random.Random) -> list[str]:
        """The command, with another number of lanes each time."""
        return ["publish", "-c", str(self.path), "--lanes", str(rng.randint(1, 4))]


@dataclass
class KillsToKafka:
    """The publisher is killed while it publishes to Kafka, with another number of lanes each time."""

    url: str
    topics: Topics
    work: Path
    seed: int
    events: int = EVENTS
    wanted: Sequence[str] = (*PHASES, TRANSACTION)
    """Phases that the kills must hit, equally often."""
    engine: EngineName | None = None
    """Engine of the publishers that are killed; ``None``: any."""
    last_engine: EngineName | None = None
    """Engine of the publishers that finish the work after the last kill; ``None``: any."""
    say: Say = silent

    def run(self, kills: int) -> Verdict:
        """At least so many kills, then until all is done."""
        rng = random.Random(self.seed)
        job = KafkaJob.make(self.url, "known_log", self.topics, self.work)
        log = job.log
        with killer(rng, self.work, self.wanted) as killing:
            while killing.goes_on(kills, blind=lambda: not self._count_aborted(job.topic)):
                if log.statuses().get("N", 0) < self.events:
                    log.add(rng, self.events)
                phase = killing.run(job.words(rng), kill=True, engine=self.engine)
                self.say(f"{phase} {log.statuses()}")
            while log.statuses().get("N"):
                killing.run(job.words(rng), kill=False, engine=self.last_engine)
        verdict = Verdict("publisher killed, to Kafka")
        hit = {PARTS.get(name, name) for name in self.wanted}
        verdict.kills(killing.kills, [name for name in PHASES if name in hit])
        verdict.figures["kills in an open transaction"] = killing.kills[TRANSACTION]
        verdict.figures["kills with rows half acknowledged"] = killing.kills[WRITTEN]
        verdict.topic(self.topics, job.topic, log.counts)
        verdict.statuses(log)
        return verdict

    def _count_aborted(self, topic: str) -> int:
        seen = self.topics.read(topic, "read_committed", wait=False)
        return len(self.topics.read(topic, "read_uncommitted")) - len(seen)


def published_files(directory: Path) -> dict[str, bytes]:
    """The files with documents and rejects of a run, by name."""
    paths = (*sorted(directory.glob("part-*.xds")), directory / "rejects.jsonl")
    return {path.name: path.read_bytes() for path in paths}


def lines(parts: Mapping[str, bytes]) -> Iterator[tuple[int, bytes]]:
    """Returns the lines of a run's files as ``judge_documents`` takes them."""
    return ((0, line) for part in parts.values() for line in part.splitlines())


def _published_runs(runs: Path) -> list[dict[str, bytes]]:
    """The files of the runs that published documents, oldest first.

    Numbers of runs that never came to be, and runs that found nothing to read, are not compared.
    """
    found = [published_files(run) for run in sorted(runs.iterdir()) if (run / "run.json").exists()]
    return [parts for parts in found if any(parts.values())]


@contextmanager
def killer(
    rng: random.Random, work: Path, wanted: Sequence[str] = (*PHASES, TRANSACTION)
) -> Iterator[Killer]:
    """A killer with a pipe of its own."""
    with Marks(work / f"marks-{rng.randrange(1 << 30)}") as marks:
        yield Killer(rng, marks, wanted)


@dataclass
class KillsToFiles:
    """The publisher is killed while it publishes to files, one portion of the log after the other."""

    url: str
    work: Path
    seed: int
    events: int = EVENTS
    say: Say = silent

    def run(self, kills: int) -> Verdict:
        """At least so many kills, then until all is done; the same undisturbed beside it."""
        rng, portions = random.Random(self.seed), random.Random(self.seed)
        killed, whole = (self._job(name) for name in ("killed", "whole"))
        count = 0
        with killer(rng, self.work, PHASES) as killing:
            while killing.goes_on(kills):
                if not killed.log.statuses().get("N"):
                    killed.log.add(portions, self.events)
                    count += 1
                self.say(f"{killing.run(killed.words, kill=True)} {killed.log.statuses()}")
            while killed.log.statuses().get("N"):
                killing.run(killed.words, kill=False)
            killing.run(killed.words, kill=False)  # a run may be acknowledged and not finished
            again = random.Random(self.seed)
            for _ in range(count):
                whole.log.add(again, self.events)
                killing.run(whole.words, kill=False)
        verdict = Verdict("publisher killed, to files")
        verdict.kills(killing.kills)
        verdict.statuses(killed.log)
        verdict.directories(killed.runs, whole.runs, killed.log.counts)
        return verdict

    def _job(self, name: str) -> _FilesJob:
        log = KnownLog(self.url, f"{name}_log")
        path = self.work / name
        job = job_file(self.work / f"{name}.toml", log.source, FILES.format(path=path))
        return _FilesJob(log, ["publish", "-c", str(job)], path / "runs")


@dataclass(frozen=True)
class _FilesJob:
    log: KnownLog
    words: list[str]
    runs: Path


@dataclass
class BrokerKills:
    """The broker is killed, and started again, while the publisher publishes to it."""

    url: str
    brokers: KafkaCluster
    work: Path
    seed: int
    events: int = EVENTS
    say: Say = silent

    def run(self, kills: int) -> Verdict:
        """So many kills; the publisher is started again where it gave up."""
        rng = random.Random(self.seed)
        job = KafkaJob.make(self.url, "broker_log", self.brokers.topics, self.work)
        log = job.log
        gave_up = 0
        with killer(rng, self.work, ("dispatch", TRANSACTION)) as killing:
            while killing.count < kills:
                if not log.statuses().get("N"):
                    log.add(rng, 2 * self.events)
                code = killing.run_beside(job.words(rng), lambda: self._outage(rng))
                gave_up += code == UnreachableError.exit_code
                self.say(f"broker killed, exit code {code}, {log.statuses()}")
            while log.statuses().get("N"):
                killing.run(job.words(rng), kill=False)
        verdict = Verdict("broker killed")
        verdict.figures |= {
            "kills": killing.count,
            "kills in an open transaction": killing.kills[TRANSACTION],
            "publishers that gave up": gave_up,
        }
        if not killing.kills[TRANSACTION]:
            verdict.problems.append("blind: no kill hit an open transaction")
        verdict.topic(self.brokers.topics, job.topic, log.counts, blind=False)
        verdict.statuses(log)
        return verdict

    def _outage(self, rng: random.Random) -> None:
        self.brokers.kill()
        time.sleep(rng.uniform(0, 2))
        self.brokers.start()

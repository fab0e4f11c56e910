"""The ledger directory is lost, or an older copy is put back, or two jobs share a name.

Each start is refused then, and the way out that the message names is taken, with kills on the way.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from publisher.ledger.storage import LEDGER, close, query
from tests.chaos.kills import REFUSED, Killer, job_file
from tests.chaos.known_log import KnownLog, values_of
from tests.chaos.marks import PHASES, TRANSACTION
from tests.chaos.scenarios import EVENTS, FILES, KafkaJob, Say, Verdict, killer, lines, silent
from tests.services.topics import Record, Topics

RECOVER = "xds-publisher recover"
RECOVERED = ("recovered", b"at-least-once")
DONE = "nothing to recover"
ACCIDENTS = 0.3
"""Of the starts have one before them."""
SENT = ("dispatch", "acknowledge")
"""Phases after which rows wait that the sink may have: there an accident is worth most."""


@dataclass
class Repeats:
    """The documents of a topic after recoveries."""

    lost: int = 0
    strange: int = 0
    unmarked: int = 0
    """Values that came a second time in a document without the header ``recovered``."""
    out_of_order: int = 0
    recovered: int = 0
    """Documents with that header."""

    @property
    def is_right(self) -> bool:
        """True if every document is there, and the second of two is marked."""
        return not (self.lost or self.strange or self.unmarked or self.out_of_order)


def find_repeats(records: Iterable[Record], counts: Counter[int]) -> Repeats:
    """Looks the records of a topic through, those of a partition in order."""
    found = Repeats()
    seen: dict[int, set[int]] = defaultdict(set)
    greatest: Counter[int] = Counter()
    for record in records:
        number, values = values_of(record.value or b"")
        if RECOVERED in record.headers:
            found.recovered += 1
        else:
            found.unmarked += len(seen[number].intersection(values))
            found.out_of_order += sum(value < greatest[number] for value in values)
        greatest[number] = max(greatest[number], *values)
        seen[number].update(values)
    for number in seen.keys() | counts.keys():
        wanted = set(range(1, counts[number] + 1))
        found.lost += len(wanted - seen[number])
        found.strange += len(seen[number] - wanted)
    return found


@dataclass
class LostLedgers:
    """The publisher is killed while it publishes to Kafka, and between starts its ledger directory
    is lost, or replaced by an older copy of it."""

    url: str
    topics: Topics
    work: Path
    seed: int
    accident: Literal["lost", "older"]
    events: int = EVENTS
    say: Say = silent

    def run(self, kills: int) -> Verdict:
        """At least so many kills, then until all is done."""
        rng = random.Random(self.seed)
        folder = self.work / f"{self.accident}-ledger"
        folder.mkdir()
        job = KafkaJob.make(self.url, f"{self.accident}_log", self.topics, folder)
        log, ledger, refused, accidents = job.log, folder / ".xds-publisher", 0, 0
        with killer(rng, folder, (*PHASES, TRANSACTION)) as killing:
            found = None
            while killing.goes_on(kills, blind=lambda: not self._is_recovered(job.topic)):
                if log.statuses().get("N", 0) < self.events:
                    log.add(rng, self.events)
                if rng.random() < (1 if found in SENT else ACCIDENTS):
                    accidents += self._happen(ledger)
                found = self._start(killing, job, rng)
                refused += found == REFUSED
                self.say(f"{found} {log.statuses()}")
                if found == REFUSED:
                    words = _words("recover", job.path)
                    message = killing.run(words, kill=rng.random() < 0.5, refusal=DONE)
                    self.say(f"recovery: {message} {log.statuses()}")
            while self._start(killing, job) == REFUSED or log.statuses().get("N"):
                killing.run(_words("recover", job.path), kill=False, refusal=DONE)
        verdict = Verdict(f"ledger directory {self.accident}, to Kafka")
        verdict.kills(killing.kills)
        verdict.figures |= {"accidents": accidents, "starts refused": refused}
        _judge(verdict, self.topics.read(job.topic), log.counts)
        verdict.statuses(log)
        return verdict

    def _start(
        self, killing: Killer, job: KafkaJob, rng: random.Random | None = None
    ) -> str | None:
        words = _words("publish", job.path) if rng is None else job.words(rng)
        return killing.run(words, kill=rng is not None, refusal=RECOVER)

    def _is_recovered(self, topic: str) -> bool:
        records = self.topics.read(topic, "read_committed", wait=False)
        return any(RECOVERED in record.headers for record in records)

    def _happen(self, ledger: Path) -> bool:
        """The accident, where there is something to lose."""
        copy = ledger.with_name("copy")
        if not ledger.exists():
            return False
        if self.accident == "lost":
            shutil.rmtree(ledger)
            return True
        if not copy.exists():
            shutil.copytree(ledger, copy)
            return False
        if _runs(ledger) == _runs(copy):
            return False  # this copy misses no run, and the next start would not be refused
        shutil.rmtree(ledger)
        copy.replace(ledger)
        return True


def _runs(ledger: Path) -> set[str]:
    """The names of the runs in all ledgers below a directory."""
    found: set[str] = set()
    for path in ledger.rglob(LEDGER):
        found.update(name for (name,) in query(path.parent, "SELECT name FROM run"))
        close(path.parent)
    return found


def _words(command: str, job: Path) -> list[str]:
    return [command, "-c", str(job)]


def _judge(verdict: Verdict, records: list[Record], counts: Counter[int]) -> None:
    found = find_repeats(records, counts)
    verdict.figures |= {
        "values logged": sum(counts.values()),
        "records": len(records),
        "records with the header recovered": found.recovered,
        "lost": found.lost,
        "doubled without that header": found.unmarked,
        "out of order": found.out_of_order,
    }
    if not found.is_right:
        verdict.problems.append(f"the topic is not right: {found}")
    if not found.recovered:
        verdict.problems.append("blind: nothing was recovered")


@dataclass
class SharedNames:
    """Two jobs of one name publish different logs to one topic: the second one is refused until it has
    another name; both are killed."""

    url: str
    topics: Topics
    work: Path
    seed: int
    events: int = EVENTS
    say: Say = silent
    refused: int = field(default=0, init=False)

    def run(self, kills: int) -> Verdict:
        """At least so many kills, then until all is done."""
        rng = random.Random(self.seed)
        first = KafkaJob.make(self.url, "first_log", self.topics, _folder(self.work / "first"))
        second = self._second(first)
        with killer(rng, self.work / "first", (*PHASES, TRANSACTION)) as killing:
            first.log.add(rng, self.events)
            killing.run(_words("publish", first.path), kill=False)
            while killing.goes_on(kills):
                for job in (first, second):
                    if job.log.statuses().get("N", 0) < self.events:
                        job.log.add(rng, self.events)
                    self.say(f"{self._start(killing, job, rng)} {job.log.statuses()}")
            for job in (first, second):
                while job.log.statuses().get("N"):
                    killing.run(_words("publish", job.path), kill=False)
        verdict = Verdict("two jobs of one name, to Kafka")
        verdict.kills(killing.kills)
        verdict.figures["starts refused"] = self.refused
        records = self.topics.read(first.topic)
        for job, schema in ((first, b"indirect"), (second, b"other")):
            mine = [_of_schema(record, schema) for record in records]
            found = [(record.partition, record.value or b"") for record in mine if record]
            verdict.documents(f"the documents of {schema.decode()}", found, job.log.counts)
            verdict.statuses(job.log)
        if not self.refused:
            verdict.problems.append("blind: no start was refused")
        return verdict

    def _second(self, first: KafkaJob) -> KafkaJob:
        log = KnownLog(self.url, "second_log")
        path = _folder(self.work / "second") / first.path.name
        source = log.source.replace('schema = "indirect"', 'schema = "other"')
        path.write_text(first.path.read_text().replace(first.log.source, source))
        return KafkaJob(log, first.topic, path)

    def _start(self, killing: Killer, job: KafkaJob, rng: random.Random) -> str | None:
        found = killing.run(job.words(rng), kill=True, refusal="set another name in [job]")
        if found == REFUSED:
            self.refused += 1
            job.path.write_text(f'{job.path.read_text()}\n[job]\nname = "second"\n')
        return found


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _of_schema(record: Record, schema: bytes) -> Record | None:
    """A record of this schema, as one of the schema that known logs have."""
    suffix = b",schema=" + schema
    if suffix not in (record.value or b""):
        return None
    value = (record.value or b"").replace(suffix, b",schema=indirect")
    return Record(record.partition, record.offset, 0, record.key, record.headers, value)


@dataclass
class LostLedgersOfFiles:
    """The ledger directory is lost between kills of a job that publishes to files; the way out is
    another directory."""

    url: str
    work: Path
    seed: int
    events: int = EVENTS
    say: Say = silent

    def run(self, kills: int) -> Verdict:
        """At least so many kills, then until all is done."""
        rng = random.Random(self.seed)
        folder = _folder(self.work / "lost-files")
        log, paths, refused = KnownLog(self.url, "lost_files_log"), [folder / "out-0"], 0
        with killer(rng, folder, PHASES) as killing:
            while killing.goes_on(kills) or not refused or log.statuses().get("N"):
                goes_on = killing.goes_on(kills) or not refused
                if goes_on and not log.statuses().get("N"):
                    log.add(rng, self.events)
                if goes_on and rng.random() < ACCIDENTS:
                    shutil.rmtree(folder / ".xds-publisher", ignore_errors=True)
                job = job_file(folder / "job.toml", log.source, FILES.format(path=paths[-1]))
                found = killing.run(
                    _words("publish", job), kill=goes_on, refusal="xds-publisher recover"
                )
                self.say(f"{found} {log.statuses()}")
                if found == REFUSED:
                    refused += 1
                    paths.append(folder / f"out-{len(paths)}")
            killing.run(
                _words("publish", job), kill=False
            )  # a run may be acknowledged, not finished
        verdict = Verdict("ledger directory lost, to files")
        verdict.kills(killing.kills)
        verdict.figures |= {"directories": len(paths), "starts refused": refused}
        self._judge(verdict, paths, log)
        return verdict

    def _judge(self, verdict: Verdict, paths: list[Path], log: KnownLog) -> None:
        """All is there; within one directory nothing twice."""
        seen: Counter[tuple[int, int]] = Counter()
        twice = 0
        for path in paths:
            values = Counter(_values(path / "runs"))
            twice += sum(count - 1 for count in values.values())
            seen.update(values.keys())
        wanted = {(n, v) for n, count in log.counts.items() for v in range(1, count + 1)}
        lost, strange = len(wanted - seen.keys()), len(seen.keys() - wanted)
        verdict.figures |= {
            "values logged": len(wanted),
            "lost": lost,
            "doubled in one directory": twice,
            "in several directories": sum(count > 1 for count in seen.values()),
        }
        if lost or strange or twice:
            verdict.problems.append(f"not right: {lost} lost, {twice} doubled, {strange} strange")
        verdict.statuses(log)


def _values(runs: Path) -> Iterator[tuple[int, int]]:
    for mark in sorted(runs.glob("*/run.json")):
        parts = {path.name: path.read_bytes() for path in sorted(mark.parent.glob("part-*.xds"))}
        for _, line in lines(parts):
            number, values = values_of(line)
            yield from ((number, value) for value in values)

"""A sent run could not write its statuses, then the URL of its source points to another database.

The start is refused; the way out is either the old URL again, or the run is abandoned, with kills on the
way.  The log of the other database has the same table name and record ids, and goes on with the values
where the one before it ends: so in the end every value is in the topic once, and in order.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from publisher.config.job_file import load
from publisher.ledger.job import Ledger
from tests.chaos.kills import REFUSED, Killer
from tests.chaos.known_log import KnownLog
from tests.chaos.marks import PHASES
from tests.chaos.scenarios import EVENTS, KafkaJob, Say, Verdict, killer, silent
from tests.services.topics import Topics

TABLE = "moved_log"
REFUSAL = "xds-publisher acknowledge"
WRITING = "Writing the status"
DONE = "waits for its acknowledgement"


@dataclass
class ChangedUrls:
    """The job moves from one database to another and back, each time with a run that waits."""

    url: str
    topics: Topics
    work: Path
    seed: int
    events: int = EVENTS
    say: Say = silent
    figures: Counter[str] = field(default_factory=Counter, init=False)
    problems: list[str] = field(default_factory=list, init=False)

    def run(self, kills: int) -> Verdict:
        """At least so many kills, and each way out at least once."""
        rng = random.Random(self.seed)
        folder = self.work / "changed-url"
        folder.mkdir()
        urls = [self.url, _other_database(self.url)]
        job = KafkaJob.make(urls[0], TABLE, self.topics, folder)
        with killer(rng, folder, PHASES) as killing:
            turn = 0
            while turn < 2 or killing.goes_on(kills):
                turn += 1
                self._leave_waiting(killing, job, rng)
                _end_sessions(urls[turn % 2])
                log = KnownLog(urls[turn % 2], TABLE, Counter(job.log.counts))
                log.add(rng, self.events)
                job = self._move(killing, job, log, abandons=turn % 2 == 1)
                self._finish(killing, job, rng)
                self.say(f"turn {turn}: {job.log.statuses()}")
        verdict = Verdict("changed URL, to Kafka")
        verdict.figures |= {"kills": sum(killing.kills.values()), "turns": turn, **self.figures}
        verdict.problems += self.problems
        verdict.topic(self.topics, job.topic, job.log.counts, blind=False)
        verdict.statuses(job.log)
        return verdict

    def _leave_waiting(self, killing: Killer, job: KafkaJob, rng: random.Random) -> None:
        """A run is sent, and its log takes no status."""
        log = job.log
        _end_sessions(log.url)
        log.add(rng, self.events)
        log.execute(f"ALTER TABLE {TABLE} ADD CONSTRAINT never CHECK (status = 'N') NOT VALID")
        if killing.run(_words("publish", job), kill=False, refusal=WRITING) != REFUSED:
            self.problems.append("blind: the statuses were written")
        log.execute(f"ALTER TABLE {TABLE} DROP CONSTRAINT never")
        if log.statuses().get("N") != self.events:
            self.problems.append(f"rows were told before the run was sent: {log.statuses()}")

    def _move(self, killing: Killer, job: KafkaJob, log: KnownLog, *, abandons: bool) -> KafkaJob:
        """The URL changes: refused, then the documented way out."""
        before, text = job.log, job.path.read_text()
        moved = replace(job, log=log)
        job.path.write_text(text.replace(before.source, log.source))
        waiting = before.statuses()
        if killing.run(_words("publish", moved), kill=False, refusal=REFUSAL) != REFUSED:
            self.problems.append("a start with the other database was not refused")
        self.figures["starts refused"] += 1
        if log.statuses() != {"N": self.events} or before.statuses() != waiting:
            self.problems.append(f"rows were touched: {log.statuses()}, {before.statuses()}")
        if abandons:
            words = [*_words("acknowledge", moved), "--run", _waiting_run(moved), "--abandon"]
            while killing.run(words, kill=True, refusal=DONE) not in (None, REFUSED):
                pass
            self.figures["runs abandoned"] += 1
            return moved
        job.path.write_text(text)
        killing.run(_words("publish", job), kill=False)
        if set(before.statuses()) != {"S"}:
            self.problems.append(f"the old database is not acknowledged: {before.statuses()}")
        self.figures["runs acknowledged after all"] += 1
        job.path.write_text(text.replace(before.source, log.source))
        return moved

    def _finish(self, killing: Killer, job: KafkaJob, rng: random.Random) -> None:
        killing.run(job.words(rng), kill=True)
        while job.log.statuses().get("N"):
            killing.run(_words("publish", job), kill=False)


def _words(command: str, job: KafkaJob) -> list[str]:
    return [command, "-c", str(job.path)]


def _waiting_run(job: KafkaJob) -> str:
    settings = load(job.path)
    ((_, manifest),) = Ledger(settings.ledger_folder, settings.name).unsent_runs()
    return manifest.run


def _end_sessions(url: str) -> None:
    """Tasks of a killed publisher may hold locks that a change of the table waits for."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'xds-publisher'"
        )


def _other_database(url: str) -> str:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS moved")
        connection.execute("CREATE DATABASE moved")
    return url.rpartition("/")[0] + "/moved"

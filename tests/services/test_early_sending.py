"""Documents of a small run travel to the brokers while its journal is being committed."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.database.connection_cache import keep_connections
from publisher.engine.local.engine import LocalEngine
from publisher.journal.manifest import MANIFEST, Journal, Manifest
from publisher.runs.pending_commit import PendingCommit
from publisher.runs.publisher_instance import PublisherInstance
from tests.chaos.known_log import judge_documents, texts
from tests.chaos.marks import Marks
from tests.chaos.process import Started
from tests.chaos.scenarios import KafkaJob
from tests.services import slow_commit
from tests.services.databases import Place
from tests.services.topics import Isolation, Topics
from tests.support.journals import commit_run, documents

EVENTS = 30


@dataclass
class EarlySending:
    """A job of one lane, and the readers of its topic."""

    job: KafkaJob
    topics: Topics

    def count(self, isolation: Isolation) -> int:
        """The records that a reader sees now."""
        return len(self.topics.read(self.job.topic, isolation, wait=False))

    def wait_for_records(self) -> None:
        """Until an open transaction has records."""
        while not self.count("read_uncommitted"):
            pass

    @contextmanager
    def instance(self) -> Iterator[PublisherInstance]:
        """An instance that begins a run."""
        settings = load(self.job.path)
        with keep_connections() as cache, PublisherInstance(settings, LocalEngine()) as job:
            cache.run += 1
            yield job

    def refuse_differences(self) -> None:
        """Compares the documents with the log."""
        found = judge_documents(texts(self.topics.read(self.job.topic)), self.job.log.counts)
        assert found.is_right, found


@pytest.fixture
def early(postgres: Place, kafka: Topics, tmp_path: Path) -> EarlySending:
    rest = "\n[follow]\npolling_interval = 0\n\n[run]\nlanes = 1\n"
    return EarlySending(KafkaJob.make(postgres.url, "known_log", kafka, tmp_path, rest), kafka)


def commit_with(
    monkeypatch: pytest.MonkeyPatch, step: Callable[[Journal], None]
) -> Callable[[], None]:
    """Inserts a step before the commits of journals; returns a function that removes it."""
    real = Journal.commit

    def commit(self: Journal, manifest: Manifest) -> None:
        step(self)
        real(self, manifest)

    monkeypatch.setattr(Journal, "commit", commit)
    return lambda: monkeypatch.setattr(Journal, "commit", real)


def test_documents_are_invisible_until_the_journal_is_committed(
    early: EarlySending, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible: list[int] = []

    def look(journal: Journal) -> None:
        early.wait_for_records()
        assert not (journal.root / MANIFEST).exists()
        visible.append(early.count("read_committed"))

    commit_with(monkeypatch, look)
    early.job.log.add(random.Random(1), EVENTS)
    with early.instance() as job:
        job.run_once()
    assert visible == [0]
    early.refuse_differences()
    assert set(early.job.log.statuses()) == {"S"}


def test_a_journal_that_cannot_be_committed_publishes_nothing(
    early: EarlySending, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Journal) -> None:
        early.wait_for_records()
        raise OSError("no space left")

    restore = commit_with(monkeypatch, fail)
    early.job.log.add(random.Random(2), EVENTS)
    with early.instance() as job:
        with pytest.raises(OSError, match="no space left"):
            job.run_once()
        assert set(early.job.log.statuses()) == {"N"}
        restore()
        assert job.finish() == []
        assert early.count("read_committed") == 0
        job.run_once()
    early.refuse_differences()
    assert len(early.topics.read(early.job.topic, "read_uncommitted")) > early.count(
        "read_committed"
    )


def test_tasks_of_other_processes_get_committed_journals_only(tmp_path: Path) -> None:
    journal, manifest = commit_run(tmp_path / "journal", [documents(3)])
    journal.forget()
    in_place = replace(manifest, results=tuple(replace(r, staged="") for r in manifest.results))
    steps: list[str] = []
    commit = PendingCommit(journal, in_place, lambda _: steps.append("meanwhile"))
    wait = pickle.loads(pickle.dumps(commit))
    assert journal.is_committed
    wait()
    commit()
    assert steps == ["meanwhile"]


def test_killed_while_documents_travel_and_the_journal_is_not_committed(
    early: EarlySending, tmp_path: Path
) -> None:
    job = early.job
    words = ["publish", "--engine", "local", "-c", str(job.path)]
    job.log.add(random.Random(3), EVENTS)
    with Marks(tmp_path / "marks") as marks:
        with Started(words, module=slow_commit.MODULE, marks=marks.path) as started:
            started.wait_until(lambda: marks.take(0.1) and marks.is_open("commit"))
            early.wait_for_records()
            started.kill()
        marks.drain()
        assert marks.is_open("commit")
    assert not list(tmp_path.rglob(MANIFEST))
    assert early.count("read_committed") == 0
    with Started(words) as started:
        assert started.wait_for_end()[0] == 0
    early.refuse_differences()
    assert early.count("read_uncommitted") > early.count("read_committed")
    assert set(job.log.statuses()) == {"S"}

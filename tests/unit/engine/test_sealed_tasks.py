"""Nothing that tasks of a masked run get, and hand to others, shows values: engines write it to disk."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from publisher.config.job_file import load
from publisher.engine.local.engine import LocalEngine
from publisher.engine.survey import SurveyWork
from publisher.engine.tasks import Work
from publisher.journal.lane_result import LaneResult
from publisher.runs.replay import replay
from publisher.sources.task_runner import ShuffleWork
from tests.support import planted_logs, planted_tables
from tests.support.planted_logs import PlantedLog
from tests.support.planted_tables import SOURCE, TABLES, PlantedTables
from tests.support.planted_values import PlantedValues


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASK_KEY", "k" * 32)


@dataclass
class Traffic:
    """What tasks got and returned."""

    planted: PlantedValues
    found: set[bytes] = field(default_factory=set)

    def add(self, *contents: object) -> None:
        octets = [each if isinstance(each, bytes) else pickle.dumps(each) for each in contents]
        self.found |= self.planted.find_in(*(each.decode("latin-1") for each in octets))


@dataclass(frozen=True)
class WatchedShuffle:
    """A shuffle whose pieces are seen."""

    work: ShuffleWork
    traffic: Traffic

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        for batch in self.work.read(part):
            self.traffic.add(str(batch.to_pylist()))
            yield batch

    def process(self, partition: int, pieces: Iterable[pa.RecordBatch], attempt: str) -> str:
        result = self.work.process(partition, pieces, attempt)
        self.traffic.add(result)
        return result


class WatchedEngine(LocalEngine):
    """Runs tasks after their work went through pickles, as on other machines."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self._traffic = traffic

    def survey(self, work: SurveyWork) -> list[Any]:
        facts = super().survey(self._ship(work))
        self._traffic.add(*facts)
        return facts

    def shuffle(self, work: ShuffleWork) -> list[str]:
        return super().shuffle(WatchedShuffle(self._ship(work), self._traffic))

    def plan(self, work: Work, **named: Any) -> list[LaneResult]:
        return super().plan(self._ship(work), **named)

    def _ship(self, work: Any) -> Any:
        self._traffic.add(work)
        return pickle.loads(pickle.dumps(work))


def write_input(planted: PlantedValues, format_: str, folder: Path) -> tuple[str, Path, str]:
    """Writes files in which every value is planted; returns settings, files and the section of masking."""
    if format_ == "triggerless":
        PlantedTables(planted, 40).write_files(folder / "in")
        return f"{SOURCE}{TABLES}", folder / "in", planted_tables.MASKING
    log = PlantedLog(planted, folder, 40)
    return (
        f'[database]\nurl = "{log.database}"\n{planted_logs.JOB}',
        log.write(),
        planted_logs.MASKING,
    )


@pytest.mark.parametrize("format_", ["event-log", "triggerless"])
def test_tasks_show_nothing(tmp_path: Path, format_: str) -> None:
    planted, job = PlantedValues(), tmp_path / "job.toml"
    text, files, masking = write_input(planted, format_, tmp_path)
    found = {}
    for name, section in {"masked": masking, "open": ""}.items():
        job.write_text(text + section)
        traffic = Traffic(planted)
        report = replay(load(job), [files], str(tmp_path / name), engine=WatchedEngine(traffic))
        assert report.documents
        found[name] = traffic.found
    assert found["masked"] == set()
    assert len(found["open"]) > 10

"""Spark tasks that send to a real broker: repeated without doubling, their errors our own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.spark.options import SparkOptions
from publisher.errors import FatalError
from publisher.runs.lane_sending import LaneSending
from tests.services.dispatching import dispatcher, texts
from tests.services.killed_tasks import COUNT, LANES
from tests.services.topics import Topics
from tests.support.ledgers import commit_run, documents, report

ROOT = Path(__file__).parents[2]


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[SparkEngine]:
    """The program's own, in the session of the tests."""
    request.getfixturevalue("spark")
    with SparkEngine(SparkOptions()) as engine_:
        yield engine_


pytestmark = pytest.mark.xdist_group("spark")


def test_tasks_that_were_killed_are_repeated(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(partitions=2)
    words = [kafka.bootstrap, str(tmp_path), topic]
    done = subprocess.run(
        [sys.executable, "-m", "tests.services.killed_tasks", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert_nothing_doubled(kafka, topic, lines)


def assert_nothing_doubled(kafka: Topics, topic: str, lanes: list[list[str]]) -> None:
    """``lanes``: number, documents and transactions of the attempts that counted."""
    counted = sorted([int(word) for word in lane] for lane in lanes)
    # the repeated attempts went on behind what the first had committed
    assert counted == [[lane, COUNT - 3_000, 1] for lane in range(LANES)]
    wanted = [engine_.text for engine_ in documents(LANES * COUNT)]
    assert sorted(texts(kafka.read(topic))) == sorted(wanted)
    # what the killed attempts had sent since is there, and no reader of committed records sees it
    assert len(kafka.read(topic, "read_uncommitted")) == LANES * (COUNT + 2_000)


def test_an_error_of_a_lane_is_the_programs_own(
    kafka: Topics, engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("publisher.ledger.runs.RECORDS_OF_SMALL_RUN", 5)  # its lanes are files
    ledger_run, manifest = commit_run(tmp_path / "ledger", [documents(10), documents(10, first=11)])
    topic = kafka.make()
    sink = dispatcher(kafka, topic)
    part = tmp_path / "ledger" / "part-00001.xds"
    content = part.read_bytes()

    def send(lanes: Sequence[LaneSendTask]) -> list[LaneSendReport]:
        part.unlink()
        return LaneSending(engine)(lanes)

    lost = replace(sink, run_lanes=send)
    lost.prepare(manifest.run)
    with pytest.raises(FatalError) as caught:
        lost.dispatch(ledger_run, manifest, report(ledger_run, manifest))
    message = (
        f"{part} of the ledger cannot be read ([Errno 2] No such file or directory: '{part}'): "
        "restore it from a copy, or publish again"
    )
    assert caught.value.message == message
    assert not sink.has_run(manifest)
    part.write_bytes(content)
    mended = replace(sink, run_lanes=LaneSending(engine))
    mended.dispatch(ledger_run, manifest, report(ledger_run, manifest))
    assert sorted(texts(kafka.read(topic))) == sorted(document.text for document in documents(20))


def test_a_newer_instance_stops_the_tasks(
    kafka: Topics, engine: SparkEngine, tmp_path: Path
) -> None:
    ledger_run, manifest = commit_run(tmp_path / "ledger", [documents(10)])
    topic = kafka.make()

    def stop_replaced() -> None:
        if os.getppid() != driver:
            raise FatalError("a newer instance of the job works: this one stops")

    driver = os.getppid()
    sink = dispatcher(kafka, topic, 1)
    sink = replace(sink, run_lanes=LaneSending(engine), check_lease=stop_replaced)
    sink.prepare(manifest.run)
    with pytest.raises(FatalError, match=r"^a newer instance of the job works: this one stops$"):
        sink.dispatch(ledger_run, manifest, report(ledger_run, manifest))
    assert kafka.read(topic, "read_uncommitted") == []

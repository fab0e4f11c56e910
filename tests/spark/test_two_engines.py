"""Runs that begin on one engine and end on the other."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from publisher.config.settings import Settings
from publisher.dispatch.files import FileDispatcher
from publisher.engine.auto import AutoEngine
from publisher.engine.contract import EngineName, InputSize
from publisher.engine.spark.options import SparkOptions
from publisher.errors import UnreachableError
from publisher.ledger.conservation import RunReport
from publisher.runs.replay import replay
from tests.support import whole_log as log
from tests.support.event_log_files import csv_text, event
from tests.support.local_engine import EngineSwitch

pytestmark = pytest.mark.usefixtures("spark")


def on(engine: str, settings: Settings) -> Settings:
    return replace(settings, run=replace(settings.run, engine=cast("EngineName", engine)))


def parts(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("part-*.xds")}


@pytest.mark.parametrize(("first", "second"), [("spark", "local"), ("local", "spark")])
def test_a_run_planned_on_one_engine_is_sent_on_the_other(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = log.write_csv(tmp_path / "log.csv")
    settings = log.settings(tmp_path / "job.toml")
    whole = replay(on(second, settings), [snapshot], str(tmp_path / "whole"))
    assert whole.engine is not None
    assert whole.engine.name == second

    def fail(*_: object) -> None:
        raise UnreachableError("the disk is away: mount it")

    with monkeypatch.context() as patch:
        patch.setattr(FileDispatcher, "dispatch", fail)
        with pytest.raises(UnreachableError):
            replay(on(first, settings), [snapshot], str(tmp_path / "out"))
    report = replay(on(second, settings), [snapshot], str(tmp_path / "out"))
    assert (report.state, report.engine) == ("published", None)
    assert replace(report, seconds={}, target="", ledger="") == replace(
        whole, seconds={}, target="", ledger="", engine=None
    )
    assert parts(tmp_path / "out") == parts(tmp_path / "whole")
    assert (tmp_path / "out" / "rejects.jsonl").read_text() == (
        tmp_path / "whole" / "rejects.jsonl"
    ).read_text()


def test_input_that_turns_out_to_be_large_moves_to_spark(
    tmp_path: Path, spark_engine: EngineSwitch
) -> None:
    rows = [event(number, new_value="x" * 1_000) for number in range(1, 2_000)]
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(csv_text(rows).encode()))
    assert packed.stat().st_size < 30_000

    def run(target: str, small: InputSize) -> RunReport:
        spark_engine.use(lambda: AutoEngine(SparkOptions(), small))
        settings = on("auto", log.settings(tmp_path / "job.toml"))
        return replay(settings, [packed], str(tmp_path / target))

    moved = run("moved", InputSize(10, 200_000))
    stayed = run("stayed", InputSize(10, 10_000_000))
    assert moved.engine is not None
    assert stayed.engine is not None
    assert (moved.engine.name, stayed.engine.name) == ("spark", "local")
    assert moved.engine.reason == "the input turned out to be large"
    assert parts(tmp_path / "moved") == parts(tmp_path / "stayed")

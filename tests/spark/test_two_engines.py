"""Runs that begin on one engine and end on the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from publisher.config.settings import Settings
from publisher.dispatch.files import FileDispatcher
from publisher.engine.contract import EngineName
from publisher.errors import UnreachableError
from publisher.runs.replay import replay
from tests.support import whole_log as log

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

"""Rows of child tables on both engines: the same documents and rejects, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.runs.replay import replay
from tests.spark.test_two_engines import on, parts
from tests.support.child_rows import CLASSES, PHONE, RECORDERS, RowChange, story

pytestmark = pytest.mark.usefixtures("spark")


def test_both_engines_publish_the_same_bytes(tmp_path: Path) -> None:
    history = [*story(), [RowChange(PHONE, None, (99, None, "111-1111"))]]
    for format_, recorder in RECORDERS.items():
        folder = tmp_path / format_
        folder.mkdir()
        paths = recorder.write(folder, history)
        job = folder / "job.toml"
        limit = '[job]\nreject_budget = "unlimited"\n'
        job.write_text(f"{limit}{recorder.settings}{CLASSES}\n[run]\nlanes = 3\n", "utf-8")
        found = []
        for engine in ("local", "spark"):
            target = folder / engine
            replay(on(engine, load(job)), paths, str(target))
            found.append((parts(target), (target / "rejects.jsonl").read_bytes()))
        assert found[0] == found[1]
        assert all(found[0])

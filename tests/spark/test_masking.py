"""Spark masks as the local engine does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import publisher.dataframes as xds
from publisher.config.job_file import load
from publisher.runs.replay import replay
from tests.support.local_engine import EngineSwitch
from tests.support.planted_files import SETTINGS, write_planted
from tests.support.planted_logs import JOB, MASKING, PlantedLog
from tests.support.planted_values import PlantedValues

KEY = "pvmaskingkey" * 3

pytestmark = pytest.mark.usefixtures("spark")


def test_spark_masks_as_the_local_engine_does(
    tmp_path: Path, spark_engine: EngineSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    planted, job = PlantedValues(), tmp_path / "job.toml"
    planted.tokens.add(b"pvmaskingkey")
    log = PlantedLog(planted, tmp_path, 100)
    snapshot = log.write()
    masking = MASKING.replace('key_env = "MASK_KEY"', 'key_file = "key"')
    job.write_text(f'[database]\nurl = "{log.database}"\n{JOB}{masking}')
    parts = []
    for engine, use in (("spark", spark_engine.use_spark), ("local", spark_engine.use)):
        use()
        out = tmp_path / engine
        replay(load(job).with_masking(is_masked=True), [snapshot], str(out))
        parts.append([path.read_bytes() for path in sorted(out.glob("part-*.xds"))])
        assert planted.find_below(out) == set()
    assert parts[0] == parts[1]


def test_changes_are_masked(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    masking = f'[masking]\nhash = ["*"]\nkey_file = "{tmp_path / "key"}"\nruns = "masked replays"\n'
    for format_ in ("change-table", "linkexpress"):
        planted, frames = PlantedValues(), {}
        path = write_planted(planted, format_, tmp_path, 40)
        job = tmp_path / "job.toml"
        job.write_text(f"[source]\n{SETTINGS[format_]}{masking}")
        for name in ("masked", "open"):
            scratch = tmp_path / f"{name}-{format_}"
            scratch.mkdir()
            masked = name == "masked"
            frame = xds.changes(spark, path, job=job, scratch=scratch, masked=masked)
            frames[name] = [row.asDict() for row in frame.orderBy("position", "ordinal").collect()]
        found = {name: planted.find_in(repr(rows)) for name, rows in frames.items()}
        assert found["masked"] == planted.find_below(tmp_path / f"masked-{format_}") == set()
        assert len(found["open"]) > 0.8 * len(planted.tokens)
        same = ("position", "ordinal", "event_type", "outcome", "reason", "columns")
        structures = [[[row[name] for name in same] for row in rows] for rows in frames.values()]
        assert structures[0] == structures[1]

"""Spark masks as the local engine does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import publisher.dataframes as xds
from publisher.config.job_file import load
from publisher.runs.replay import replay
from tests.support import planted_tables
from tests.support.local_engine import EngineSwitch
from tests.support.planted_files import SETTINGS, write_planted
from tests.support.planted_held import SOURCES, all_documents, publish
from tests.support.planted_logs import JOB, MASKING, PlantedLog
from tests.support.planted_tables import KEY_CHANGES, ComparingJob, PlantedTables
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
        replay(load(job), [snapshot], str(out))
        parts.append([path.read_bytes() for path in sorted(out.glob("part-*.xds"))])
        assert planted.find_below(out) == set()
    assert parts[0] == parts[1]


def test_spark_compares_tables_as_the_local_engine_does(
    tmp_path: Path, spark_engine: EngineSwitch
) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    masking = planted_tables.MASKING.replace(
        'key_env = "MASK_KEY"', f'key_file = "{tmp_path / "key"}"'
    )
    planted, data = PlantedValues(), tmp_path / "data"
    planted.tokens.add(b"pvmaskingkey")
    tables = PlantedTables(planted, 40)
    jobs = [
        ComparingJob(
            tmp_path / engine,
            f'snapshots = ["{data}"]\n',
            f"{KEY_CHANGES}buckets = 2\n",
            masking,
            engine,
        )
        for engine in ("spark", "local")
    ]
    for again in range(2):
        if again:
            tables.change()
        tables.write_files(data)
        for job, use in zip(jobs, (spark_engine.use_spark, spark_engine.use), strict=True):
            use()
            assert "published" in job.run(planted, "publish")
            if again:
                assert "missing" in job.run(planted, "verify", "--repair")
    assert [job.found for job in jobs] == [set(), set()]
    assert jobs[0].documents() == jobs[1].documents() != []


def test_spark_opens_the_records_of_an_earlier_run(
    tmp_path: Path, spark_engine: EngineSwitch
) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    planted, parts = PlantedValues(), []
    planted.tokens.add(b"pvmaskingkey")
    write_files, source = SOURCES["dispatch-queue"]
    paths = write_files(planted, tmp_path)
    masking = f'[masking]\nhash = ["*"]\nkey_file = "{tmp_path / "key"}"\n'
    for engine, use in (("spark", spark_engine.use_spark), ("local", spark_engine.use)):
        use()
        _, found = publish(tmp_path / engine, paths, source, masking, planted, engine)
        assert found == set()
        parts.append(all_documents(tmp_path / engine))
    assert parts[0] == parts[1] != []


def test_changes_are_masked(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    masking = f'[masking]\nhash = ["*"]\nkey_file = "{tmp_path / "key"}"\n'
    for format_ in ("change-table", "linkexpress"):
        planted, frames = PlantedValues(), {}
        path = write_planted(planted, format_, tmp_path, 40)
        for name, settings in {"masked": masking, "open": ""}.items():
            job = tmp_path / f"{name}.toml"
            job.write_text(f"[source]\n{SETTINGS[format_]}{settings}")
            scratch = tmp_path / f"{name}-{format_}"
            scratch.mkdir()
            frame = xds.changes(spark, path, job=job, scratch=scratch)
            frames[name] = [row.asDict() for row in frame.orderBy("position", "ordinal").collect()]
        found = {name: planted.find_in(repr(rows)) for name, rows in frames.items()}
        assert found["masked"] == planted.find_below(tmp_path / f"masked-{format_}") == set()
        assert len(found["open"]) > 0.8 * len(planted.tokens)
        same = ("position", "ordinal", "event_type", "outcome", "reason", "columns")
        structures = [[[row[name] for name in same] for row in rows] for rows in frames.values()]
        assert structures[0] == structures[1]

"""Spark masks as the local engine does."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.runs.replay import replay
from tests.support import planted_tables
from tests.support.local_engine import EngineSwitch
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

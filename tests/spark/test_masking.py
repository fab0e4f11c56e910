"""Spark masks as the local engine does."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.runs.replay import replay
from tests.support.local_engine import EngineSwitch
from tests.support.planted_held import SOURCES, all_documents, publish
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
        replay(load(job), [snapshot], str(out))
        parts.append([path.read_bytes() for path in sorted(out.glob("part-*.xds"))])
        assert planted.find_below(out) == set()
    assert parts[0] == parts[1]


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

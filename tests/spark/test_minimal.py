"""Minimal modifies on both engines: equal documents, and states that either engine continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.consumer import Objects, part_files, read_files
from publisher.runs.publish import publish as publish_job
from publisher.runs.replay import replay
from tests.support.local_engine import EngineSwitch
from tests.support.renamed_rows import SETTINGS, renamed_rows, write_rows

pytestmark = pytest.mark.usefixtures("spark")

JOB = (
    '[[sources]]\n{settings}key_change = "modify-association"\n[run]\nlanes = 3\n'
    "[documents]\nminimal = true\n"
)


def names_of(files: list[Path]) -> dict[str, str | None]:
    objects = Objects(strict=True)
    objects.apply_all(read_files(files))
    return {name: objects[name].text("lname") for name in objects}


def test_both_engines_write_the_same_documents(tmp_path: Path, spark_engine: EngineSwitch) -> None:
    table = renamed_rows(5, 400)
    path = write_rows(table, "change-table", tmp_path)
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(settings=SETTINGS["change-table"]), "utf-8")
    texts = []
    for engine, use in (("spark", spark_engine.use_spark), ("local", spark_engine.use)):
        use()
        replay(load(job), [path], str(tmp_path / engine))
        texts.append([file.read_bytes() for file in part_files(tmp_path / engine)])
    assert texts[0] == texts[1]
    assert names_of(part_files(tmp_path / "local")) == {
        f"idu={key},table=usr,schema=hr": text for key, text in table.rows.items()
    }


def test_each_engine_continues_with_the_states_of_the_other(
    tmp_path: Path, spark_engine: EngineSwitch
) -> None:
    table = renamed_rows(6, 300)
    path = write_rows(table, "event-log", tmp_path)
    header, *lines = path.read_text("utf-8").splitlines(keepends=True)
    job, folder = tmp_path / "job.toml", tmp_path / "in"
    settings = SETTINGS["event-log"] + 'snapshots = ["in"]\n'
    job.write_text(JOB.format(settings=settings) + '[dispatch]\npath = "out"\n', "utf-8")
    folder.mkdir()
    for number, use in enumerate([spark_engine.use, spark_engine.use_spark, spark_engine.use]):
        use()
        part = lines[number * 100 : (number + 1) * 100]
        (folder / f"{number}.csv").write_text("".join([header, *part]), "utf-8")
        publish_job(load(job))
    files = part_files(tmp_path / "out")
    assert names_of(files) == {
        f"idu={key},table=usr,schema=hr": text for key, text in table.rows.items()
    }
    assert all(b"remove-all-values" not in file.read_bytes() for file in files)

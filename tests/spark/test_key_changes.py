"""Spark's tasks share the changes of keys: all keys of an object have one lane, in all splits."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.consumer import Objects, part_files, read_files
from publisher.runs.replay import replay
from tests.support.local_engine import EngineSwitch
from tests.support.renamed_rows import SETTINGS, renamed_rows, write_rows

pytestmark = pytest.mark.usefixtures("spark")

JOB = '[source]\n{settings}key_change = "modify-association"\n[run]\nlanes = 3\n'


def divide(path: Path, count: int) -> list[Path]:
    """Divides the records of a CSV file among files, which are splits of their own."""
    header, *records = path.read_text("utf-8").splitlines(keepends=True)
    size = -(-len(records) // count)
    parts = [path.with_name(f"{number}-{path.name}") for number in range(count)]
    for number, part in enumerate(parts):
        part.write_text("".join([header, *records[number * size : (number + 1) * size]]), "utf-8")
    path.unlink()
    return parts


@pytest.mark.parametrize("format_", ["event-log", "change-table"])
def test_renames_across_splits(tmp_path: Path, spark_engine: EngineSwitch, format_: str) -> None:
    table = renamed_rows(11, 600)
    paths = divide(write_rows(table, format_, tmp_path), 4)
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(settings=SETTINGS[format_]), "utf-8")
    texts = []
    for engine, use in (("spark", spark_engine.use_spark), ("local", spark_engine.use)):
        use()
        replay(load(job), paths, str(tmp_path / engine))
        files = part_files(tmp_path / engine)
        texts.append([file.read_bytes() for file in files])
        objects = Objects(strict=True)
        objects.apply_all(read_files(files))
        assert {name: objects[name].text("lname") for name in objects} == {
            f"idu={key},table=usr,schema=hr": text for key, text in table.rows.items()
        }
    assert texts[0] == texts[1]

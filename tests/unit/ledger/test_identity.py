"""The identity of a ledger directory, and what does not fit it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError
from publisher.ledger import storage
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.ledger.storage import LEDGER, LEDGER_FORMAT
from publisher.runs.job import Job
from publisher.runs.publish import publish as publish_job
from tests.support.followed_jobs import FILES, load_settings, published_values, write_file

pytestmark = pytest.mark.usefixtures("local_engine")


def publish(base: Path, more: str = "") -> RunReport:
    return publish_job(load_settings(base, FILES, more))


def ledger(base: Path) -> Path:
    return base / ".xds-publisher" / "job"


def published_files(base: Path) -> dict[str, bytes]:
    paths = (base / "out").rglob("*")
    return {str(path): path.read_bytes() for path in paths if path.is_file()}


def test_an_identity_differs_by_directory(tmp_path: Path) -> None:
    one, other, none = (Ledger(tmp_path / name, "job") for name in ("a", "b", "none"))
    assert one.open_identity() == one.open_identity() == one.identity()
    assert other.open_identity() != one.identity()
    assert none.identity() is None
    other.adopt_identity(one.open_identity())
    assert other.identity() == one.identity()


def set_version(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def write_journal(path: Path) -> None:
    """Makes the directory that of the former version."""
    path.unlink()
    (path.parent / "job.json").write_text('{"format": 2, "identity": "a"}')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_version, f"format 99, this program reads format {LEDGER_FORMAT}: use xds-publisher"),
        (write_journal, r"earlier version of this program.*move the directory"),
        (
            lambda path: path.write_bytes(b"7" * 9_999),
            r"ledger\.db is damaged.*restore it; or move",
        ),
    ],
    ids=["later", "earlier", "damaged"],
)
def test_a_directory_of_another_version_is_refused(
    tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    storage.close(ledger(tmp_path))
    change(ledger(tmp_path) / LEDGER)
    before = published_files(tmp_path)
    write_file(tmp_path, "2.csv", 2)
    with pytest.raises(FatalError, match=message):
        publish(tmp_path)
    assert published_files(tmp_path) == before


def test_the_files_of_a_lost_ledger_are_not_overwritten(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", *range(1, 6))
    publish(tmp_path)
    before = published_files(tmp_path)
    shutil.rmtree(tmp_path / ".xds-publisher")
    (tmp_path / "in" / "1.csv").unlink()
    write_file(tmp_path, "2.csv", 6, 7)
    for _ in range(2):
        with pytest.raises(
            FatalError, match=r"came from another ledger.*run `xds-publisher recover"
        ):
            publish(tmp_path)
    assert published_files(tmp_path) == before
    job = tmp_path / "job.toml"
    job.write_text(job.read_text().replace('"out"', '"other"'))
    assert publish_job(load(job)).documents == 2
    assert published_files(tmp_path) == before


def test_the_files_of_an_older_ledger_are_not_overwritten(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    shutil.copytree(tmp_path / ".xds-publisher", tmp_path / "copy")
    write_file(tmp_path, "2.csv", 2)
    publish(tmp_path)
    shutil.rmtree(tmp_path / ".xds-publisher")
    shutil.copytree(tmp_path / "copy", tmp_path / ".xds-publisher")
    before = published_files(tmp_path)
    write_file(tmp_path, "3.csv", 3)
    with pytest.raises(FatalError, match=r"newer than the last run that .* knows \(number 1\)"):
        publish(tmp_path)
    assert published_files(tmp_path) == before


def test_a_run_of_another_job_in_the_way_is_refused_before_it_is_planned(tmp_path: Path) -> None:
    """It was not there when this job began: two jobs of one name work side by side."""
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    job = Job(load_settings(tmp_path, FILES, ""), LocalEngine())
    shutil.copytree(tmp_path / "out/runs/job-000001", tmp_path / "out/runs/job-000002")
    mark = tmp_path / "out/runs/job-000002/run.json"
    mark.write_text(
        json.dumps(json.loads(mark.read_text()) | {"identity": "b", "run": "job-000002"})
    )
    before = published_files(tmp_path)
    write_file(tmp_path, "2.csv", 2)
    with pytest.raises(FatalError, match="run job-000002 came from another ledger"):
        job.run()
    assert published_files(tmp_path) == before


@pytest.mark.parametrize("version", [1, 99])
def test_a_directory_of_runs_of_another_version_is_refused(tmp_path: Path, version: int) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    mark = tmp_path / "out/runs/job-000001/run.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"format": version}))
    with pytest.raises(FatalError, match=f"format {version}, this program reads format 3: use"):
        publish(tmp_path)
    assert published_values(tmp_path) == ["1"]


def test_runs_whose_rows_are_gone_are_known_by_their_number(tmp_path: Path) -> None:
    short = "[ledger]\nretention_days = 0.0000001\n"
    for number in range(1, 5):
        write_file(tmp_path, f"{number}.csv", number)
        publish(tmp_path, short)
    job = Ledger(ledger(tmp_path), "job")
    assert job.oldest_kept() == 4
    write_file(tmp_path, "5.csv", 5)
    assert publish(tmp_path, short).run == "job-000005"

"""The identity of a journal directory, and what does not fit it."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.engine.local.engine import LocalEngine
from publisher.errors import FatalError
from publisher.journal.conservation import RunReport
from publisher.journal.identity import open_identity, read_identity
from publisher.journal.manifest import JOURNAL_FORMAT
from publisher.runs import publisher_instance
from tests.support.followed_jobs import FILES, load_settings, published_values, write_file

pytestmark = pytest.mark.usefixtures("local_engine")


def publish(base: Path, more: str = "") -> RunReport:
    return publisher_instance.publish(load_settings(base, FILES, more))


def journals(base: Path) -> Path:
    return base / ".xds-publisher" / "job"


def published_files(base: Path) -> dict[str, bytes]:
    paths = (base / "out").rglob("*")
    return {str(path): path.read_bytes() for path in paths if path.is_file()}


def test_an_identity_is_created_once_and_differs_by_directory(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(open_identity(tmp_path / "a"))) for _ in "1234"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(found) == {read_identity(tmp_path / "a")}
    assert open_identity(tmp_path / "b") not in found
    assert read_identity(tmp_path / "none") is None


@pytest.mark.parametrize("version", [1, 3, 99, None])
def test_a_directory_of_another_version_is_refused(tmp_path: Path, version: int | None) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    content = {"format": version, "identity": "a"}
    (journals(tmp_path) / "job.json").write_text(json.dumps(content))
    before = published_files(tmp_path)
    write_file(tmp_path, "2.csv", 2)
    with pytest.raises(FatalError, match=f"format {version}.*reads format {JOURNAL_FORMAT}: use"):
        publish(tmp_path)
    assert published_files(tmp_path) == before


def test_a_directory_of_the_first_version_is_refused(tmp_path: Path) -> None:
    """It had no version of its own."""
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    (journals(tmp_path) / "job.json").unlink()
    with pytest.raises(FatalError, match=r"earlier version of this program.*move the directory"):
        publish(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", f'{{"format": {JOURNAL_FORMAT}}}', "7"])
def test_a_damaged_identity_is_one_clear_error(tmp_path: Path, text: str) -> None:
    tmp_path.joinpath("job.json").write_text(text)
    with pytest.raises(FatalError, match=r"job\.json is damaged.*restore it, or move"):
        open_identity(tmp_path)


def test_the_files_of_a_lost_journal_are_not_overwritten(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", *range(1, 6))
    publish(tmp_path)
    before = published_files(tmp_path)
    shutil.rmtree(tmp_path / ".xds-publisher")
    (tmp_path / "in" / "1.csv").unlink()
    write_file(tmp_path, "2.csv", 6, 7)
    for _ in range(2):
        with pytest.raises(
            FatalError, match=r"came from another journal.*run `xds-publisher recover"
        ):
            publish(tmp_path)
    assert published_files(tmp_path) == before
    job = tmp_path / "job.toml"
    job.write_text(job.read_text().replace('"out"', '"other"'))
    assert publisher_instance.publish(load(job)).documents == 2
    assert published_files(tmp_path) == before


def test_the_files_of_an_older_journal_are_not_overwritten(tmp_path: Path) -> None:
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
    job = publisher_instance.PublisherInstance(load_settings(tmp_path, FILES, ""), LocalEngine())
    shutil.copytree(tmp_path / "out/runs/job-000001", tmp_path / "out/runs/job-000002")
    mark = tmp_path / "out/runs/job-000002/run.json"
    mark.write_text(
        json.dumps(json.loads(mark.read_text()) | {"identity": "b", "run": "job-000002"})
    )
    before = published_files(tmp_path)
    write_file(tmp_path, "2.csv", 2)
    with pytest.raises(FatalError, match="run job-000002 came from another journal"):
        job.run_once()
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


def test_runs_whose_journals_are_gone_are_known_by_their_number(tmp_path: Path) -> None:
    short = "[journal]\nretention_runs = 1\n"
    for number in range(1, 5):
        write_file(tmp_path, f"{number}.csv", number)
        publish(tmp_path, short)
    assert not (journals(tmp_path) / "job-000002").exists()
    shutil.rmtree(journals(tmp_path) / "job-000004")
    write_file(tmp_path, "5.csv", 5)
    assert publish(tmp_path, short).run == "job-000005"

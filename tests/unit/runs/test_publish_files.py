"""Publishing files from a job file, once and once more, without Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from publisher.cli.publish import publish_once
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError, SettingsError
from publisher.ledger.conservation import RunReport
from publisher.reports.check import CheckFinding, check
from publisher.reports.explain import explain
from publisher.reports.status import status
from publisher.runs.publish import publish as publish_job
from tests.support.followed_jobs import (
    FILES,
    TABLE,
    load_settings,
    published_values,
    write_file,
    write_rows,
)
from tests.support.local_engine import EngineSwitch

pytestmark = pytest.mark.usefixtures("local_engine")


def publish(base: Path, more: str = "") -> RunReport:
    return publish_job(load_settings(base, FILES, more))


def test_a_second_publish_reads_only_new_files(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1, 2)
    write_file(tmp_path, "2.csv", 3)
    assert publish(tmp_path).read == 3
    write_file(tmp_path, "3.csv", 4)
    second = publish(tmp_path)
    assert (second.run, second.read) == ("job-000002", 1)
    assert published_values(tmp_path) == ["1", "2", "3", "4"]
    (story,) = explain(Path(second.ledger), "4")
    assert story.place == f"{tmp_path / 'in' / '3.csv'}, record 2"


def test_check_finds_what_publish_would_refuse(tmp_path: Path) -> None:
    def check_source() -> CheckFinding:
        checked = check(load_settings(tmp_path, FILES, ""))
        return next(finding for finding in checked if finding.what == "source hr")

    write_file(tmp_path, "1.csv", 1, 2)
    assert check_source().ok
    publish(tmp_path)
    write_file(tmp_path, "2.csv", 3)
    assert check_source().ok
    write_file(tmp_path, "1.csv", 1, 2, 3)
    with pytest.raises(FatalError) as refused:
        publish(tmp_path)
    assert "1.csv had" in refused.value.message
    assert (check_source().ok, check_source().detail) == (False, refused.value.message)


def test_without_new_files_there_is_nothing_to_read(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    again = publish(tmp_path)
    assert (again.run, again.state, again.read) == ("job", "nothing new to read", 0)
    assert published_values(tmp_path) == ["1"]
    assert [path.name for path in (tmp_path / "out" / "runs").iterdir()] == ["job-000001"]


def test_an_empty_file_is_told_of_and_read_once_it_is_filled(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    empty = tmp_path / "in" / "1.csv"
    empty.touch()
    assert publish(tmp_path).notes == (f"empty files: {empty}; check whether an export failed",)
    assert publish(tmp_path).state == "nothing new to read"
    write_file(tmp_path, "1.csv", 1)
    assert publish(tmp_path).read == 1
    write_file(tmp_path, "1.csv", 2)
    with pytest.raises(FatalError, match="has the same size"):
        publish(tmp_path)


def test_files_are_known_when_their_ledgers_are_gone(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    publish(tmp_path, "[ledger]\nretention_days = 0\n")
    assert not (tmp_path / ".xds-publisher" / "job" / "job-000001").exists()
    assert publish(tmp_path).state == "nothing new to read"


def test_a_published_file_that_grew_is_an_error(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    write_file(tmp_path, "1.csv", 1, 2)
    with pytest.raises(FatalError, match="write new records to a new file"):
        publish(tmp_path)
    assert published_values(tmp_path) == ["1"]


def test_a_published_file_may_be_removed(tmp_path: Path) -> None:
    path = write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    path.unlink()
    write_file(tmp_path, "2.csv", 2)
    assert publish(tmp_path).read == 1


def test_a_file_that_is_written_to_while_it_is_read_is_an_error(
    tmp_path: Path, local_engine: EngineSwitch
) -> None:
    path = write_file(tmp_path, "1.csv", 1)
    before = path.stat().st_size

    class WritingEngine(LocalEngine):
        def each(self, *arguments: Any, **named: Any) -> list[Any]:
            results = super().each(*arguments, **named)
            write_file(tmp_path, "1.csv", 1, 2)
            return results

    local_engine.use(WritingEngine)
    with pytest.raises(FatalError) as caught:
        publish(tmp_path)
    local_engine.use(LocalEngine)
    after = path.stat().st_size
    assert caught.value.message == (
        f"{path} was written to while it was read ({before} bytes before, {after} after): write files "
        "elsewhere, then move them here"
    )
    assert published_values(tmp_path) == []
    # it is complete now, and nothing was sent from it
    assert publish(tmp_path).read == 2
    assert published_values(tmp_path) == ["1", "2"]


def test_the_sinks_directory_may_be_lost_but_not_the_marks(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    shutil.rmtree(tmp_path / "out")
    assert publish(tmp_path).state == "nothing new to read"
    shutil.rmtree(tmp_path / ".xds-publisher")
    assert publish(tmp_path).read == 1


def test_log_trace_and_metrics_tell_of_a_single_publish(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_file(tmp_path, "1.csv", 1, 2)
    job = load_settings(
        tmp_path, FILES, f'[metrics]\nport = 1\ntextfile = "{tmp_path}/people.prom"\n'
    )
    publish_once(job, None, None, log="json", trace=3)
    lines = capfd.readouterr().err.splitlines()
    (poll,) = [json.loads(line) for line in lines if '"read"' in line]
    assert (poll["run"], poll["read"]) == ("job-000001", 2)
    assert sum("<association>" in line for line in lines) == 2
    assert 'records_total{job_name="job",outcome="published"} 2.0' in (
        (tmp_path / "people.prom").read_text()
    )
    write_file(tmp_path, "2.csv", 3)
    publish_once(job, None, None, log=None, trace=None)
    assert capfd.readouterr().err == ""


def test_another_spelling_of_a_path_publishes_nothing(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    (tmp_path / "away").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    for spelled in ("./in", "away/../in", "link", "in/1.csv"):
        settings = load_settings(tmp_path, FILES.replace('"in"', f'"{spelled}"'))
        assert publish_job(settings).state == "nothing new to read"
    both = load_settings(tmp_path, FILES.replace('"in"', '"in", "link/1.csv", "link"'))
    assert publish_job(both).state == "nothing new to read"


def test_a_copy_is_refused_unless_equal_files_are_wanted(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv", 1)
    publish(tmp_path)
    shutil.copy(tmp_path / "in" / "1.csv", tmp_path / "in" / "2.csv")
    with pytest.raises(FatalError, match=r"2\.csv has the same content as .*1\.csv"):
        publish(tmp_path)
    assert published_values(tmp_path) == ["1"]
    wanted = load_settings(tmp_path, FILES + 'copies = "publish"\n')
    assert publish_job(wanted).read == 1
    assert published_values(tmp_path) == ["1", "1"]


def test_exports_without_records_are_no_copies(tmp_path: Path) -> None:
    write_file(tmp_path, "1.csv")
    write_file(tmp_path, "2.csv")
    assert publish(tmp_path).read == 0
    write_file(tmp_path, "3.csv")
    assert publish(tmp_path).read == 0
    assert publish(tmp_path).state == "nothing new to read"


def test_copies_are_refused_in_formats_without_files(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"copies: is for files of changes; leave it out"):
        load_settings(
            tmp_path, TABLE.replace("[database]", 'copies = "publish"\n[database]')
        ).for_publish()


def test_a_file_of_which_all_is_rejected_is_read_again_after_the_fix(tmp_path: Path) -> None:
    """Others are published, and it is reported once."""
    path = write_file(tmp_path, "1.csv", 1, 2)
    path.write_text(path.read_text().replace(",", ";"))
    good = write_file(tmp_path, "2.csv", 3)
    first = publish(tmp_path)
    assert (first.outcomes["published"], published_values(tmp_path)) == (1, ["3"])
    (note,) = first.notes
    assert note.startswith(f"all records of {path} were rejected: these files are not marked")
    assert publish(tmp_path).state == "nothing new to read"
    known = status(load_settings(tmp_path, FILES)).files[0]
    assert (known.published, known.new, known.refused) == (1, 0, 1)
    good.unlink()
    fixed = FILES + 'delimiter = ";"\n'
    second = publish_job(load_settings(tmp_path, fixed))
    assert (second.read, second.outcomes["published"], second.notes) == (2, 2, ())
    assert published_values(tmp_path) == ["1", "2", "3"]
    assert publish_job(load_settings(tmp_path, fixed)).state == "nothing new to read"


def test_a_refused_file_is_remembered_when_its_ledger_is_gone(tmp_path: Path) -> None:
    path = write_file(tmp_path, "1.csv", 1)
    path.write_text(path.read_text().replace("idu=1", "idu"))
    retention = "[ledger]\nretention_days = 0\n"
    assert publish(tmp_path, retention).outcomes["rejected"] == 1
    assert not list((tmp_path / ".xds-publisher" / "job").glob("job-*"))
    assert publish(tmp_path, retention).state == "nothing new to read"
    write_file(tmp_path, "1.csv", 7)
    assert publish(tmp_path, retention).outcomes["published"] == 1


def test_a_file_with_some_rejected_records_is_published(tmp_path: Path) -> None:
    path = write_file(tmp_path, "1.csv", 1, 2)
    path.write_text(path.read_text().replace("idu=1", "idu"))
    assert publish(tmp_path).outcomes["rejected"] == 1
    other = load_settings(tmp_path, FILES + 'null_text = "-"\n')
    assert publish_job(other).state == "nothing new to read"


def sample(base: Path, source: str = FILES) -> CheckFinding:
    checked = check(load_settings(base, source, ""))
    return next(finding for finding in checked if finding.what == "sample of hr")


def test_check_shows_a_sample_of_files(tmp_path: Path) -> None:
    path = write_file(tmp_path, "1.csv", *range(1, 151))
    path.write_text(path.read_text().replace("idu=2,", "idu,"))
    assert sample(tmp_path) == CheckFinding(
        "sample of hr",
        True,
        "first 100 record(s): 99 changes, 1 rejected (table-key); first reject 2: "
        "table-key: table_key 'idu': key, character 3: \"=\" is missing after the column name: write "
        'COLUMN=VALUE; first change 1: replace field of idu=1 in usr {"fname": "Jack 1"}',
    )


def test_check_shows_a_sample_of_a_table(tmp_path: Path) -> None:
    write_rows(tmp_path, 7)
    assert sample(tmp_path, TABLE).detail == (
        "first 1 record(s): 1 changes; first change 7: replace field of idu=7 in usr "
        '{"fname": "Jack"}'
    )


def test_check_fails_where_a_sample_is_rejected(tmp_path: Path) -> None:
    path = write_file(tmp_path, "1.csv", 1, 2)
    path.write_text(path.read_text().replace(",", ";"))
    check_source = sample(tmp_path)
    assert not check_source.ok
    assert check_source.detail.startswith(
        "all of the first 3 record(s) are rejected, the first at 1.csv:1:"
    )
    assert check_source.detail.endswith(
        "check that format and settings of the source fit its content"
    )

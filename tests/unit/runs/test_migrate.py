"""Migration: rows of compared tables are published as new; an engine without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.config.job_file import load
from publisher.errors import PublisherError, UsageError
from publisher.formats.migration import Migration
from publisher.ledger.conservation import RunReport
from publisher.runs import migrate as migrating
from publisher.runs import run as spine
from publisher.runs.migrate import RESUMED
from tests.support.compared_jobs import kinds_and_keys, publish, table_row, write_job, write_table
from tests.unit.formats.triggerless import test_live_tables as live

pytestmark = pytest.mark.usefixtures("local_engine")


def migrate(base: Path, migration: Migration, more: str = "") -> RunReport:
    return migrating.migrate(load(write_job(base, more)), migration)


def test_all_rows_as_new(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1), table_row(2)])
    publish(tmp_path)
    assert kinds_and_keys(migrate(tmp_path, Migration()), tmp_path) == [("add", "1"), ("add", "2")]
    assert publish(tmp_path).documents == 0


def test_a_first_migration_is_what_a_first_comparison_is(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1), table_row(2)])
    report = migrate(tmp_path, Migration(), 'startup_option = "future"')
    assert kinds_and_keys(report, tmp_path) == [("add", "1"), ("add", "2")]
    write_table(tmp_path, [table_row(1)])
    assert kinds_and_keys(publish(tmp_path), tmp_path) == [("delete", "2")]


@pytest.mark.parametrize(
    ("migration", "keys"),
    [
        (Migration(keys=("idu=02", "idu=3")), ["2", "3"]),
        (Migration(equal=(("FNAME", "Eve"),)), ["2"]),
        (Migration(equal=(("fname", "Eve"), ("lname", "x"))), []),
    ],
)
def test_some_rows(tmp_path: Path, migration: Migration, keys: list[str]) -> None:
    write_table(tmp_path, [table_row(1), table_row(2, "Eve"), table_row(3)])
    publish(tmp_path)
    report = migrate(tmp_path, migration)
    assert kinds_and_keys(report, tmp_path) == [("add", key) for key in keys]
    assert report.read == len(keys)


def test_rows_that_are_not_migrated_stay_as_they_were(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1), table_row(2), table_row(3)])
    publish(tmp_path)
    write_table(tmp_path, [table_row(1, "Eve"), table_row(2, "Eve")])
    assert kinds_and_keys(migrate(tmp_path, Migration(keys=("idu=1",))), tmp_path) == [("add", "1")]
    assert kinds_and_keys(publish(tmp_path), tmp_path) == [("delete", "3"), ("modify", "2")]


@pytest.mark.parametrize(
    ("option", "rest"),
    [("future", []), ("all", [("add", "2")]), ("resynchronise", [("modify", "2")])],
)
def test_the_first_comparison_after_some_rows_goes_by_the_startup_option(
    tmp_path: Path, option: str, rest: list[tuple[str, str]]
) -> None:
    more = f'startup_option = "{option}"'
    write_table(tmp_path, [table_row(1), table_row(2)])
    migrate(tmp_path, Migration(keys=("idu=1",)), more)
    assert kinds_and_keys(publish(tmp_path, more), tmp_path) == rest
    write_table(tmp_path, [table_row(1), table_row(2), table_row(3)])
    assert kinds_and_keys(publish(tmp_path, more), tmp_path) == [("add", "3")]


def test_a_migration_that_was_cut_short_goes_on_and_is_not_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path, [table_row(1), table_row(2)])

    def kill(*_: object) -> RunReport:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(spine, "send", kill)
        with pytest.raises(KeyboardInterrupt):
            migrate(tmp_path, Migration())
    report = migrate(tmp_path, Migration())
    assert report.notes[-1] == RESUMED
    parts = (tmp_path / "out" / "runs").rglob("part-*.xds")
    assert sum(len(part.read_text().splitlines()) for part in parts) == 2
    assert migrate(tmp_path, Migration()).documents == 2


@pytest.mark.parametrize(
    ("migration", "words"),
    [
        (Migration(("dep",)), "no source compares a table dep"),
        (Migration(equal=(("mail", "x"),)), "has no column mail"),
        (Migration(keys=("idu=x",)), "is not a number"),
        (Migration(keys=("lname=x",)), "the key of usr is idu"),
        (Migration(keys=("idu=1", "idu=09")), "usr has no row with the key idu=09: correct --key"),
        (Migration(equal=(("fname", "Eve"),), keys=("idu=1",)), "key idu=1 that meets --where"),
    ],
)
def test_what_makes_no_sense_is_told(tmp_path: Path, migration: Migration, words: str) -> None:
    write_table(tmp_path, [table_row(1)])
    with pytest.raises(PublisherError, match=words):
        migrate(tmp_path, migration)


def test_a_job_that_compares_nothing(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('[[sources]]\nsnapshots = ["x"]\n[dispatch]\npath = "out"\n')
    with pytest.raises(UsageError, match="none of the sources of job job compares tables"):
        migrating.migrate(load(path), Migration())


def test_rows_of_a_database(tmp_path: Path) -> None:
    live.execute(
        tmp_path,
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)",
        "CREATE TABLE dep (name TEXT PRIMARY KEY, site TEXT)",
        "INSERT INTO usr VALUES (1, 'Ann'), (2, 'Bob')",
        "INSERT INTO dep VALUES ('IT', 'Köln')",
    )
    live.publish(tmp_path)
    settings = load(tmp_path / "job.toml")
    report = migrating.migrate(settings, Migration(("usr",), (("fname", "Bob"),)))
    assert kinds_and_keys(report, tmp_path) == [("add", "2")]
    with pytest.raises(UsageError, match="has no column mail; it has idu, fname"):
        migrating.migrate(settings, Migration(("usr",), (("mail", "x"),)))
    report = migrating.migrate(settings, Migration(("dep",)))
    assert kinds_and_keys(report, tmp_path) == [("add", "IT")]


def test_the_command(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1), table_row(2, "Eve")])
    arguments = [
        "migrate",
        "-c",
        str(write_job(tmp_path)),
        "--table",
        "usr",
        "--where",
        "fname=Eve",
    ]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "documents  1 (1 add)" in done.output
    wrong = CliRunner().invoke(cli, [*arguments, "--where", "fname"])
    assert wrong.exit_code == 2
    assert "write COLUMN=VALUE" in wrong.output

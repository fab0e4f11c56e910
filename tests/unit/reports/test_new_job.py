"""``init`` writes job files that can be used, and replaces none."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.config.compose_job_file import (
    NewDatabase,
    NewSink,
    NewSource,
    compose_job_file,
)
from publisher.config.job_file import load_to_publish
from publisher.errors import InternalError
from publisher.formats.registry import FORMATS
from publisher.resources import resource
from tests.support.event_log_files import event, write

EVENT_LOG = (
    "CREATE TABLE log (record_id INTEGER PRIMARY KEY, table_key TEXT, status TEXT, event_type INTEGER,"
    " event_time TEXT, perpetrator TEXT, table_name TEXT, column_name TEXT, old_value TEXT, new_value TEXT)"
)
USR = (
    "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, manager INTEGER REFERENCES usr);"
    "CREATE TABLE phone (idu INTEGER NOT NULL REFERENCES usr, phoneno TEXT);"
)


@pytest.fixture(autouse=True)
def in_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def init(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["init", *arguments])


def make_database(*statements: str) -> str:
    with closing(sqlite3.connect("hr.db")) as database:
        for statement in statements:
            database.executescript(statement)
    return "sqlite:///hr.db"


def test_event_log_of_a_database() -> None:
    url = make_database(EVENT_LOG, USR)
    result = init("--database", url, "-o", "hr.toml")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0] == "hr.toml: event-log from log"
    spaced = init("--database", url, "-o", "hr 2.toml")
    assert spaced.output.splitlines()[-2:] == [
        "  xds-publisher check -c 'hr 2.toml'",
        "  xds-publisher publish --follow -c 'hr 2.toml'",
    ]
    settings = load_to_publish(Path("hr.toml"))
    assert (settings.sources[0].table, settings.sources[0].format) == ("log", "event-log")
    assert CliRunner().invoke(cli, ["check", "-c", "hr.toml"]).exit_code == 0


def test_the_file_has_the_settings_that_matter() -> None:
    url = make_database(EVENT_LOG, USR)
    assert init("--database", url, "-o", "hr.toml").exit_code == 0
    assert Path("hr.toml").read_text() == (
        "#:schema .xds-publisher/job.schema.json\n"
        "# Job file of the format event-log.  Paths are relative to this file.\n"
        "# All other settings have their defaults: xds-publisher init --all shows them.\n"
        '\n[job]\nname = "hr"\n'
        '\n[[sources]]\nname = "hr"\nformat = "event-log"\ntable = "log"\n'
        '\n[database]\nurl = "sqlite:///hr.db"\n'
        '\n[dispatch]\npath = "documents"\n'
    )


def test_the_schema_is_that_of_the_program() -> None:
    url = make_database(EVENT_LOG, USR)
    Path("jobs").mkdir()
    assert init("--database", url, "-o", "jobs/hr.toml").exit_code == 0
    printed = CliRunner().invoke(cli, ["schema"]).stdout
    schema = Path("jobs") / Path("jobs/hr.toml").read_text().split()[1]
    assert json.loads(schema.read_text()) == json.loads(printed)


def test_all_settings_are_shown_on_request() -> None:
    url = make_database(EVENT_LOG, USR)
    assert init("--database", url, "--all", "-o", "hr.toml").exit_code == 0
    text = Path("hr.toml").read_text()
    assert "#   usr: key idu; fname, manager -> idu=…,table=usr, phone.phoneno (several)\n" in text
    assert "\n# create_topics = false" in text
    assert CliRunner().invoke(cli, ["check", "-c", "hr.toml"]).exit_code == 0


def test_files_beside_the_database_of_their_tables() -> None:
    url = make_database(USR)
    Path("logs").mkdir()
    write(Path("logs/log.csv"), [event(1)])
    assert init("logs", "--database", url, "-o", "hr.toml").exit_code == 0
    settings = load_to_publish(Path("hr.toml"))
    assert settings.sources[0].snapshots == (Path("logs").absolute(),)
    assert settings.database is not None


def test_a_job_file_in_another_directory_names_the_same_inputs() -> None:
    url = make_database(USR)
    Path("jobs").mkdir()
    write(Path("log.jsonl"), [event(1, table_name="usr")])
    assert init("log.jsonl", "--database", url, "-o", "jobs/hr.toml").exit_code == 0
    settings = load_to_publish(Path("jobs/hr.toml"))
    (snapshot,) = settings.sources[0].snapshots
    assert snapshot.resolve() == Path("log.jsonl").resolve()
    assert settings.database is not None
    assert settings.database.url == f"sqlite:///{Path.cwd()}/hr.db"
    assert "documents" in str(settings.sink.path)
    assert CliRunner().invoke(cli, ["check", "-c", "jobs/hr.toml"]).exit_code == 0


def test_change_tables_are_recognised() -> None:
    names = "header__change_seq,header__change_oper,header__change_mask,idu,fname"
    Path("usr__ct").mkdir()
    Path("usr__ct/1.csv").write_text(f"{names}\n{'1' * 35},I,18,1,Jack\n")
    assert init("usr__ct", "-o", "ct.toml").exit_code == 0
    assert load_to_publish(Path("ct.toml")).sources[0].format == "change-table"


def test_tables_that_are_compared() -> None:
    url = make_database(USR, "CREATE TABLE note (text TEXT);")
    result = init("--database", url, "--format", "triggerless", "-o", "hr.toml")
    assert result.exit_code == 0
    assert 'tables = ["usr"]' in Path("hr.toml").read_text()
    assert CliRunner().invoke(cli, ["check", "-c", "hr.toml"]).exit_code == 0


@pytest.mark.parametrize("format_", ["linkexpress", "dispatch-queue"])
def test_formats_that_only_a_job_file_describes_get_the_example(format_: str) -> None:
    Path("data.dat").write_bytes(b"\x00" * 100)
    result = init("data.dat", "--format", format_, "-o", "job.toml")
    assert "describe your source and its tables there" in result.output
    assert load_to_publish(Path("job.toml")).sources[0].format == format_


def test_topics() -> None:
    write(Path("log.csv"), [event(1)])
    assert (
        init("log.csv", "--to", "kafka://localhost:1,127.0.0.1:1/people", "-o", "hr.toml").exit_code
        == 0
    )
    settings = load_to_publish(Path("hr.toml"))
    assert (settings.sink.to, settings.kafka.brokers) == ("kafka", "localhost:1,127.0.0.1:1")
    assert settings.kafka.topic == "people"
    line = "create_topics = true  # the brokers could not be asked\n"
    assert line in Path("hr.toml").read_text()


def test_an_existing_file_is_not_replaced() -> None:
    write(Path("log.csv"), [event(1)])
    Path("hr.toml").write_text("mine")
    result = init("log.csv", "-o", "hr.toml")
    assert result.exit_code == 2
    assert "hr.toml exists already: name another file" in result.output
    assert Path("hr.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ((USR,), "only the tables usr: create a log with xds-publisher ddl --database sqlite:///"),
        ((EVENT_LOG, EVENT_LOG.replace("log", "log2", 1)), "several logs, log (event-log), log2"),
    ],
)
def test_a_database_without_one_log(statements: tuple[str, ...], message: str) -> None:
    result = init("--database", make_database(*statements), "-o", "hr.toml")
    assert result.exit_code == 2
    assert message in result.output
    assert not Path("hr.toml").exists()


def test_one_of_several_logs_is_named() -> None:
    url = make_database(EVENT_LOG, EVENT_LOG.replace("log", "log2", 1))
    assert init("--database", url, "--table", "log2", "-o", "hr.toml").exit_code == 0
    assert load_to_publish(Path("hr.toml")).sources[0].table == "log2"


@pytest.mark.parametrize(
    "arguments", [(), ("plain.csv",), ("missing.csv",), ("noise.csv",), ("empty.csv",)]
)
def test_inputs_that_show_nothing(arguments: tuple[str, ...]) -> None:
    Path("plain.csv").write_text("a,b\n1,2\n")
    Path("noise.csv").write_bytes(bytes(range(128, 148)))
    Path("empty.csv").touch()
    result = init(*arguments, "-o", "hr.toml")
    assert result.exit_code == 2
    assert re.search("[:;] name ", result.output)
    assert not Path("hr.toml").exists()


def test_logs_without_names_of_columns_are_recognised() -> None:
    Path("log.csv").write_text("1,idu=1,N,1,2026-01-01 00:00:00,hr,usr,fname,,Jack\n")
    assert init("log.csv", "-o", "hr.toml").exit_code == 0
    assert load_to_publish(Path("hr.toml")).sources[0].format == "event-log"


def test_an_unknown_format_is_named() -> None:
    write(Path("log.csv"), [event(1)])
    result = init("log.csv", "--format", "csv", "-o", "hr.toml")
    assert result.exit_code == 2
    assert "--format: should be one of event-log, change-table" in result.output


def test_a_database_without_keys_has_nothing_to_compare() -> None:
    url = make_database("CREATE TABLE note (text TEXT);")
    result = init("--database", url, "--format", "triggerless", "-o", "hr.toml")
    assert result.exit_code == 2
    assert "no table with a primary key: name its schema with --schema" in result.output
    assert not Path("hr.toml").exists()


def test_names_of_tables_are_no_settings() -> None:
    url = make_database(
        EVENT_LOG, 'CREATE TABLE "a\n[run]\nlanes = 0" (idu INTEGER PRIMARY KEY, x TEXT);'
    )
    assert init("--database", url, "--all", "-o", "hr.toml").exit_code == 0
    assert load_to_publish(Path("hr.toml")).run.lanes != 0
    assert r"a\n[run]" in Path("hr.toml").read_text()


def test_secrets_stay_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    text = compose_job_file(
        resource("conf/event-log.toml").read_text("utf-8"),
        NewSource("event-log", table="log"),
        NewDatabase(url_env="DATABASE_URL", schema="hr"),
        NewSink(),
        [],
        "hr",
    )
    Path("hr.toml").write_text(text)
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:secret@h/d")
    settings = load_to_publish(Path("hr.toml"))
    assert settings.database is not None
    assert settings.database.schema == "hr"
    assert "secret" in str(settings.database.url)
    result = init("--database", "postgresql://u:hush@127.0.0.1:1/d", "-o", "new.toml")
    assert result.exit_code == 5
    assert "hush" not in result.output
    assert not Path("new.toml").exists()


@pytest.mark.parametrize("shows_defaults", [False, True])
@pytest.mark.parametrize("format_", FORMATS)
def test_every_example_can_be_composed(format_: str, shows_defaults: bool) -> None:
    source = NewSource(format_, snapshots=('a "b".csv', "c\\d", "e\x7f\tf"))
    example = resource(f"conf/{format_}.toml").read_text("utf-8")
    database = NewDatabase(url="sqlite:///hr.db") if "# [database]" in example else None
    text = compose_job_file(
        example, source, database, NewSink(), ["note"], "job", shows_defaults=shows_defaults
    )
    Path("job.toml").write_text(text)
    settings = load_to_publish(Path("job.toml"))
    assert [path.name for path in settings.sources[0].snapshots] == [*source.snapshots]
    assert settings.sink.path is not None
    assert settings.sink.path.name == "documents"


def test_an_example_without_the_setting_is_an_error_of_the_installation() -> None:
    with pytest.raises(InternalError, match="has no snapshots"):
        compose_job_file(
            '[job]\nname = ""\n[[sources]]\nname = ""\nformat = ""\n[dispatch]\n',
            NewSource("event-log", ("a",)),
            None,
            NewSink(),
            [],
            "job",
        )

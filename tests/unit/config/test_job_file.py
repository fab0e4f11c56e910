"""Job files: what they give, and what is said of wrong ones."""

import json
import pickle
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from publisher.config.job_file import SECTIONS, Overrides, defaults, load
from publisher.config.settings import Settings
from publisher.errors import SettingsError, UsageError
from publisher.formats.registry import FORMATS
from publisher.model.catalogue import ColumnKind
from publisher.model.keys import IdentifierCase

Job = Callable[..., Settings]
SECRET = "Tr0ub4dor"
*_FIRST, _LAST = (f"'{name}'" for name in FORMATS)
FORMAT_NAMES = f"{', '.join(_FIRST)} or {_LAST}"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Loads a job file of this text."""

    def load_text(text: str, **overrides: Any) -> Settings:
        path = tmp_path / "hr.toml"
        path.write_text(text, "utf-8")
        return load(path, Overrides(**overrides))

    return load_text


def problems(job: Job, text: str, **overrides: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        job(text, **overrides)
    return caught.value.lines


def test_no_option_is_declared_twice_in_a_table() -> None:
    for name, kinds in SECTIONS.items():
        names = [field.name for kind in kinds for field in fields(kind)]
        assert len(names) == len(set(names)), name


def test_an_empty_file_gives_the_defaults(job: Job) -> None:
    empty, without = job(""), defaults()
    assert (empty.name, without.name) == ("hr", "replay")
    assert empty.sources == without.sources
    assert empty.meaning() == without.meaning()
    assert empty.database is None
    assert empty.run.lane_count == 8


def test_values_arrive_as_typed_frozen_objects(job: Job, tmp_path: Path) -> None:
    settings = job("""
        [job]
        name = "people"
        reject_budget = "unlimited"
        [[sources]]
        name = "log"
        snapshots = ["a.csv", "/data/b"]
        delimiter = ";"
        columns = { nr = "record_id" }
        identifier_case = "lower"
        include = ["usr"]
        poll_size = 5
        [tables.usr]
        key = ["idu"]
        columns.idu = "int"
        padded = ["lname"]
        [documents]
        batch_size = 128
        ndsversion = false
        time_syntax = 3
        [dispatch]
        path = "out"
        [spark]
        master = "local[2]"
        "spark.driver.memory" = "1g"
        spark.sql.shuffle.partitions = "3"
    """)
    source = settings.sources[0]
    assert settings.name == "people"
    assert settings.allowed_rejects(0) is None
    assert source.snapshots == (tmp_path / "a.csv", Path("/data/b"))
    assert source.reading.delimiter == ";"
    assert source.event_log.columns == {"nr": "record_id"}
    assert source.options.identifier_case is IdentifierCase.LOWER
    assert source.filters.include == ("usr",)
    assert source.polls is not None
    assert source.polls.poll_size == 5
    table = settings.tables[0]
    assert (table.schema, table.name, table.key) == (None, "usr", ("idu",))
    assert table.columns["idu"] is ColumnKind.INT
    assert table.padded == {"lname"}
    assert settings.documents.batch_size == 128
    assert settings.envelope.ndsversion is None
    assert settings.values.time_syntax == 3
    assert settings.sink.path == tmp_path / "out"
    assert settings.ledgers == tmp_path / ".xds-publisher"
    assert settings.spark.conf == {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "3",
    }
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_all_problems_are_reported_at_once_with_line_and_nearest_name(job: Job) -> None:
    assert problems(
        job,
        """[job]
reject_budget = -1
[[sources]]
delimitr = ";"
[[sources]]
name = "two"
poll_size = "5"
[documents]
batch_sise = 1
batch_size = 129
[tables.usr]
columns.idu = "number"
[dokuments]
""",
    ) == [
        "[job] reject_budget: should be greater than or equal to 0 or should be 'unlimited', not -1 (line 2)",
        "[[sources]] delimitr: unknown key, did you mean delimiter? (line 4)",
        '[[sources]] 2 poll_size: should be a whole number, not "5" (line 7)',
        "[documents] batch_sise: unknown key, did you mean batch_size? (line 9)",
        "[documents] batch_size: should be less than or equal to 128, not 129 (line 10)",
        (
            "[tables.usr] columns.idu: should be 'string', 'octet', 'int', 'decimal', 'state', "
            "'date', 'time' or 'timestamp', not \"number\" (line 12)"
        ),
        "[dokuments]: unknown key, did you mean documents? (line 13)",
    ]


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("job = 3", "[job]: should be a table, write [job] (line 1)"),
        ("sources = 3", "[sources]: is one table; write [[sources]], or [source] (line 1)"),
        (
            "[source]\n[[sources]]",
            "[source]: appears beside [[sources]]; keep one of the two (line 1)",
        ),
        (
            "[[sources]]\n[[sources]]",
            "[[sources]] name: event-log is the name of several sources; give each its own (line 1)",
        ),
        (
            '[source]\nsnapshots = ["a"]\ntable = "t"',
            "[source] table: appears beside snapshots; keep one of the two (line 3)",
        ),
        (
            '[source]\ncolumns = {a = "record_idd"}',
            (
                "[source] columns: record_idd is not one of record_id, table_key, status, "
                "event_type, event_time, perpetrator, table_name, column_name, old_value, new_value, "
                "or appears twice; map each custom name to one of these (line 2)"
            ),
        ),
        (
            '[source]\ntime_zone = "Mars"',
            "[source] time_zone: 'Mars' is not known; write a name such as Europe/Berlin (line 2)",
        ),
        (
            '[source]\nformat = "csv"',
            f'[source] format: should be {FORMAT_NAMES}, not "csv" (line 2)',
        ),
        (
            '[[tables]]\nname = "x"',
            "[tables]: should be a table, write [tables] (line 1)",
        ),
        (
            '[tables.a]\nname = "t"\n[tables.b]\nname = "t"',
            "[tables.b] name: t is described twice; keep one description (line 4)",
        ),
        (
            "[spark]\nspark.x = 3",
            '[spark] spark.x: should be text in quotes, as "A", not 3 (line 1)',
        ),
        (
            '[spark.conf]\n"spark.driver.memory" = "4g"',
            """[spark]: write Spark's settings by their own names: "spark.driver.memory" = "4g" (line 1)""",
        ),
        ("[spark]\nmastr = 'x'", "[spark] mastr: unknown key, did you mean master? (line 2)"),
        ('[documents]\ntime_zone = "Nowhere"', None),
        ('[source]\ndelimiter = "\\""', None),
        ('[source]\nencoding = "klingon"', None),
        ('[documents]\ncontact = "\\u0000"', None),
    ],
)
def test_a_wrong_setting_is_named(job: Job, text: str, overrides: str | None) -> None:
    found = problems(job, text)
    assert len(found) == 1 or overrides in found
    if overrides is None:
        assert "(line " in found[0]
    else:
        assert overrides in found


def test_broken_toml_names_file_and_line(job: Job, tmp_path: Path) -> None:
    (found,) = problems(job, "[job]\nname = \n")
    assert found.startswith(f"{tmp_path}/hr.toml: ")
    assert "line 2" in found


def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'[job]\nname = "\xfc"')
    with pytest.raises(SettingsError, match="is not UTF-8"):
        load(tmp_path / "latin.toml")


class TestDatabase:
    def test_secrets_are_never_shown(self, job: Job) -> None:
        text = f'[database]\nurl = "postgresql://idm:{SECRET}@db/hr"\nretries = 3'
        settings = job(text)
        assert SECRET not in repr(settings) + settings.meaning()
        found = problems(job, text + "\nretris = 3\nbackoff = -1\n[x]")
        found += problems(job, f'[database]\nurl = "{SECRET}"')
        found += problems(job, f'[database]\nurl = ["{SECRET}"]')
        found += problems(job, "", database=SECRET)
        assert len(found) >= 6
        assert SECRET not in "\n".join(found)

    def test_the_url_may_come_from_the_environment(
        self, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = '[database]\nurl_env = "HR_URL"'
        monkeypatch.delenv("HR_URL", raising=False)
        assert problems(job, text) == [
            "[database] url_env: the environment variable HR_URL is not set: set it to the URL (line 2)"
        ]
        monkeypatch.setenv("HR_URL", f"postgresql://idm:{SECRET}@db/hr")
        database = job(text).database
        assert database is not None
        assert (
            database.url == f"postgresql+psycopg://idm:{SECRET}@db/hr"
        )  # where no variable is set
        assert SECRET not in repr(database)

    def test_a_sqlite_file_is_relative_to_the_job_file_or_the_command(
        self, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = '[database]\nurl = "sqlite:///hr.db"'
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        database = job(text).database
        assert database is not None
        assert database.url == f"sqlite:///{tmp_path}/hr.db"
        overrides = job(text, database="sqlite:///hr.db").database
        assert overrides is not None
        assert overrides.url == f"sqlite:///{tmp_path}/elsewhere/hr.db"

    def test_a_source_may_have_its_own(self, job: Job) -> None:
        settings = job("""
            [database]
            url = "sqlite:////data/hr.db"
            retries = 9
            [source]
            table = "log"
            url = "sqlite:////data/log.db"
        """)
        own = settings.sources[0].database
        assert own is not None
        assert (own.url, own.retries) == ("sqlite:////data/log.db", 9)

    def test_a_table_without_one_is_refused_when_publishing(self, job: Job) -> None:
        settings = job('[source]\ntable = "log"\n[dispatch]\npath = "x"')
        with pytest.raises(SettingsError, match="no database is named"):
            settings.for_publish()


class TestCommandLine:
    def test_options_win_over_the_job_file(self, job: Job, tmp_path: Path) -> None:
        settings = job(
            """
            [source]
            schema = "a"
            status = "N"
            [database]
            url = "sqlite:////data/hr.db"
            schema = "a"
            [ledger]
            path = "here"
            [run]
            lanes = 3
            """,
            schema="b",
            status="any",
            lanes=5,
            ledger=Path("there"),
        )
        assert settings.sources[0].event_log.schema == "b"
        assert settings.sources[0].event_log.status == "any"
        assert settings.database is not None
        assert settings.database.schema == "b"
        assert settings.run.lanes == 5
        assert settings.ledgers == Path("there").absolute()

    def test_wrong_options_are_named_as_the_user_wrote_them(self, job: Job) -> None:
        found = problems(job, "[run]\nlanes = 4", lanes=0, status="S", database="nonsense")
        assert found == [
            "--database: is not a URL: write postgresql://USER@HOST/DATABASE",
            "--status: should be 'N' or 'any', not \"S\"",
            "--lanes: should be greater than or equal to 1, not 0",
        ]
        with pytest.raises(SettingsError, match=f'^--format: should be {FORMAT_NAMES}, not "csv"$'):
            defaults(Overrides(format="csv"))

    def test_a_replay_takes_the_one_source_that_fits(self, job: Job) -> None:
        one = job('[source]\nname = "log"')
        assert one.for_replay().sources == one.sources
        assert one.for_replay("event-log").sources == one.sources
        with pytest.raises(UsageError, match="no source of format linkexpress"):
            one.for_replay("linkexpress")
        two = job('[[sources]]\nname = "a"\n[[sources]]\nname = "b"')
        with pytest.raises(UsageError, match=r"several sources: a \(event-log\), b \(event-log\)"):
            two.for_replay()


def test_publishing_needs_something_to_read_and_somewhere_to_write(job: Job) -> None:
    with pytest.raises(SettingsError) as caught:
        job("[[sources]]\n[[sources]]\nname = 'b'").for_publish()
    assert caught.value.lines == [
        '[[sources]]: nothing to read; set snapshots = ["FILE"] or table = "NAME"',
        '[[sources]] 2: nothing to read; set snapshots = ["FILE"] or table = "NAME"',
        (
            '[dispatch]: names no sink; set path = "DIRECTORY" for files, or to = "kafka" with '
            'bootstrap = "HOST:PORT"'
        ),
    ]


class TestMeaning:
    @pytest.mark.parametrize(
        "text",
        [
            "[run]\nlanes = 1",
            '[dispatch]\npath = "x"',
            '[ledger]\npath = "x"',
            '[spark]\nmaster = "local[1]"',
            "[job]\nreject_budget = 5",
            '[job]\nname = "other"',
            '[source]\nsnapshots = ["x"]',
            "[source]\nblock_size = 100",
        ],
    )
    def test_is_the_same_whatever_does_not_change_documents(self, job: Job, text: str) -> None:
        assert job(text).meaning() == job("").meaning()

    @pytest.mark.parametrize(
        "text",
        [
            "[documents]\nbatch_size = 2",
            '[documents]\ntime_zone = "Europe/Berlin"',
            '[documents]\nproduct = "x"',
            '[source]\nschema = "x"',
            '[source]\nnull_text = "x"',
            "[source]\npoll_slack = 1",
            '[source]\nexclude = ["x"]',
            "[tables.usr]",
            '[database]\nurl = "sqlite:////a.db"',
        ],
    )
    def test_differs_where_documents_may_differ(self, job: Job, text: str) -> None:
        assert job(text).meaning() != job("").meaning()

    def test_follows_the_database_but_not_who_asks(self, job: Job) -> None:
        def meaning(url: str) -> str:
            return job(f'[database]\nurl = "{url}"').meaning()

        assert meaning("postgresql://a:b@h/d") == meaning("postgresql://c:d@h/d")
        assert meaning("postgresql://a:b@h/d") != meaning("postgresql://a:b@h/e")

    def test_is_canonical(self, job: Job) -> None:
        one = job('[tables.usr]\npadded = ["a", "b", "c"]\ncolumns = {a = "int", b = "date"}')
        other = job('[tables.usr]\ncolumns = {b = "date", a = "int"}\npadded = ["c", "b", "a"]')
        assert one.meaning() == other.meaning()
        content = json.loads(one.meaning())
        assert one.meaning() == json.dumps(
            content, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )


def test_settings_of_classes_that_contradict_each_other_are_problems(job: Job) -> None:
    text = """
        [classes]
        sync_filter = "list"
        [tables.usr.children.phone.columns]
        no = "string"
        [tables.grp.children.PHONE.columns]
        no = "string"
    """
    assert problems(job, text) == [
        '[classes] sync_tables: belongs to sync_filter = "list": set both or neither (line 2)',
        "[tables.grp] children: PHONE is a child table of usr, too; keep one parent",
    ]

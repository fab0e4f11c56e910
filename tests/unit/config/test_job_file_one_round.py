"""Job files with many mistakes: all of them are reported at once, and nothing that follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load, load_to_publish
from publisher.config.validation import validate
from publisher.engine.local import LocalEngine
from publisher.errors import SettingsError, UnreachableError
from publisher.formats.linkexpress.options import LinkexpressOptions
from publisher.runs.job import Job

MANY = """\
[job]
reject_budget = -1
nam = "x"

[[sources]]
name = "log"
table = "log"
status = "M"
time_zone = "Mars"
columns = { nr = "record_idd" }
delimiter = ""
encoding = "klingon"
poll_size = 0
driver_user = 5

[[sources]]
name = "log"
format = "linkexpress"
unit = "tabel"
extract = "diff"
nulls = true
charset = "rot13"
national_charset = "nope"
snapshots = ["gone.dat"]
[[sources.tables]]
name = "usr"
items = ["idu INTEGR", "x CHAR(3)"]
key = ["idu"]
[[sources.tables]]
items = ["idu INTEGER", "idu CHAR(3)"]
key = ["nope"]

[[sources]]
name = "q"
format = "dispatch-queue"
driver_user = "x"
attributes = "nofile.csv"
image_charset = "klingon"
snapshots = []

[[sources]]
name = "t"
format = "triggerless"
buckets = 3
most_deleted = 2
tables = ["usr"]

[[sources]]
name = "c"
format = "change-tabel"
mask_order = "x"
delimitr = ";"

[database]
retries = -1
url = "sqlit:///x.db"

[tables.usr]
key = "idu"
columns = { a = "number" }

[documents]
time_zone = "Nowhere"
batch_size = 900
product = "a\\u0001"
contact = "b\\u0002"

[dispatch]
to = "kafka"
topic = "a b"
token_topic = "{x}"
bootstrap = "localhost:9"
[dispatch.kafka]
"security.protocol" = "x"
"no.such" = "1"
"sasl.password" = { env = "NOT_THERE_X" }
"acks" = "1"

[acknowledge]
delete_processed_rows = true
write_status = false
reason_table = ""

[follow]
polling_interval = -1
time_zone = "Moon"
publication_times = ["25:00"]
heartbeat_minutes = 1
[metrics]
port = 0
[table_queue]
code_page = "nope"
eorr = 0
long_bytes = 5
[activity]
gap_seconds = 0
[run]
lanes = 0
[spark]
"spark.speculation" = "true"
mastr = "x"
[journl]
path = 5
"""

WRONG = {
    "[job]": ["reject_budget", "nam"],
    "[[sources]]": [
        "name",
        "status",
        "time_zone",
        "columns",
        "delimiter",
        "encoding",
        "poll_size",
        "driver_user",
    ],
    "[[sources]] 2": [
        "name",
        "unit",
        "charset",
        "national_charset",
        "snapshots",
        "tables 1 (usr) items",
        "tables 2 name",
        "tables 2 items",
        "tables 2 key",
    ],
    "[[sources]] 3": ["", "driver_user", "attributes", "image_charset"],
    "[[sources]] 4": ["buckets", "most_deleted"],
    "[[sources]] 5": ["format", "delimitr"],
    "[database]": ["retries", "url"],
    "[tables.usr]": ["key", "columns.a"],
    "[documents]": ["time_zone", "batch_size", "product", "contact"],
    "[dispatch]": ["topic", "token_topic"],
    "[dispatch.kafka]": ["security.protocol", "no.such", "sasl.password", "acks"],
    "[acknowledge]": ["delete_processed_rows", "write_status", "reason_table"],
    "[follow]": ["polling_interval", "time_zone", "publication_times"],
    "[metrics]": ["port"],
    "[table_queue]": ["code_page", "eorr", "long_bytes"],
    "[activity]": ["gap_seconds"],
    "[run]": ["lanes"],
    "[spark]": ["spark.speculation", "mastr"],
    "[journl]": [""],
}
"""The places of all mistakes in it, whatever finds them: types, own checks, other sections, files."""


def problems(folder: Path, text: str, *, follows: bool = False) -> list[str]:
    path = folder / "hr.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_to_publish(path, follows=follows)
    return caught.value.lines


def places(found: list[str]) -> list[str]:
    return [problem.partition(": ")[0] for problem in found]


def test_all_mistakes_of_all_sections_come_in_one_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_THERE_X", raising=False)
    found = problems(tmp_path, MANY, follows=True)
    wanted = [f"{table} {name}".rstrip() for table, names in WRONG.items() for name in names]
    assert sorted(places(found)) == sorted(wanted)
    assert all("(line " in problem for problem in found)


def test_a_missing_sink_comes_with_the_other_mistakes(tmp_path: Path) -> None:
    found = problems(tmp_path, "[[sources]]\n[run]\nlanes = 0\n")
    assert places(found) == ["[[sources]]", "[run] lanes", "[dispatch]"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[source]\nsnapshot = ["a"]\n[dispatch]\npath = "x"', "[source] snapshot"),
        ('[source]\nsnapshots = "a"\n[dispatch]\npath = "x"', "[source] snapshots"),
        ('[source]\ntable = "a"\n[database]\nurl = 5\n[dispatch]\npath = "x"', "[database] url"),
        ('[source]\ntable = "a"\n[databse]\nurl = "x"\n[dispatch]\npath = "x"', "[databse]"),
        ('[source]\ntable = "a"\nurl = "sqlite:///x"\n[dispach]\npath = "x"', "[dispach]"),
        ('[source]\ntable = "a"\nurl = "sqlite:///x"\n[dispatch]\npath = 3', "[dispatch] path"),
        (
            '[source]\nformat = "linkexpres"\nunit = "table"\nsnapshots = ["."]\n[dispatch]\npath = "x"',
            "[source] format",
        ),
        (
            (
                '[source]\nformat = "linkexpress"\nname = ""\nunit = "group"\nextract = "all"\n'
                'nulls = true\nsnapshots = ["."]\n[dispatch]\npath = "x"\n'
                '[[source.tables]]\nname = "u"\nitems = ["a INTEGER"]\nkey = ["a"]'
            ),
            "[source] name",
        ),
    ],
)
def test_what_only_follows_from_a_mistake_is_not_reported(
    text: str, place: str, tmp_path: Path
) -> None:
    assert places(problems(tmp_path, text)) == [place]


def test_an_own_check_reports_what_no_right_value_would_avoid() -> None:
    table = {"name": "u", "items": ["a INTEGER"], "key": ["b"]}
    given = {"unit": "tabel", "extract": "all", "nulls": True, "charset": "x", "tables": [table]}
    found = [problem.key for problem in validate(LinkexpressOptions, given).problems]
    assert found == [("tables", 0, "key"), ("unit",), ("charset",)]  # difftype depends on unit


def test_without_publishing_a_sink_is_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "hr.toml").write_text("[source]\n")
    assert load(tmp_path / "hr.toml").sink.path is None


def test_all_absent_inputs_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "hr.toml"
    text = "".join(f'[[sources]]\nname = "{n}"\nsnapshots = ["{n}.csv"]\n' for n in "ab")
    path.write_text(text + '[dispatch]\npath = "out"\n')
    settings = load_to_publish(path)
    with (
        LocalEngine() as engine,
        Job(settings, engine) as job,
        pytest.raises(UnreachableError) as caught,
    ):
        job.backlog()
    assert all(f"source {n}: {tmp_path}/{n}.csv does not exist" in str(caught.value) for n in "ab")


@pytest.mark.parametrize("setting", ["status", "write_status"])
def test_following_refuses_to_publish_rows_again_at_each_poll(tmp_path: Path, setting: str) -> None:
    status = 'status = "any"' if setting == "status" else ""
    text = f"""
[source]
table = "log"
{status}
[database]
url = "sqlite:///hr.db"
[dispatch]
path = "out"
[acknowledge]
write_status = {"false" if setting == "write_status" else "true"}
"""
    (tmp_path / "hr.toml").write_text(text)
    load_to_publish(tmp_path / "hr.toml")
    (found,) = problems(tmp_path, text, follows=True)
    assert f" {setting}: each poll would publish" in found
    assert "publish without --follow (line" in found

"""Explanations in terms of classes: names in the log, the attribute, and why a value was not read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from publisher.cli.output import stories_text
from publisher.config.job_file import load
from publisher.reports.explain import explain
from publisher.runs.replay import replay
from tests.golden.test_classes import JOB, SCHEMA, database_job, replay_events
from tests.golden.test_views import SCHEMA as VIEWED
from tests.golden.test_views import USR as VIEW
from tests.golden.test_views import direct_job
from tests.support.child_rows import CLASSES, RECORDERS, FormatName, story
from tests.support.compared_classes import publish_classes, write_classes

pytestmark = pytest.mark.usefixtures("local_engine")

SHOWN = ("logged as", "class", "left out", "outcome", "because", "see")


def lines_of(directory: Path, position: str) -> list[str]:
    """The lines of the explanation of a record that concern its class and outcome."""
    (explained,) = explain(directory, position)
    lines = [(line[:11].strip(), line[12:]) for line in stories_text([explained])]
    return [f"{name}: {text}" for name, text in lines if name in SHOWN]


PHONE = "class: table indirect.usr; values of child table usr_phone"
LOGGED = "logged as: table usr_phone, column phoneno"
W, E = "status W", "status E"
CHILD_ROW = (
    "the event concerns a whole row of the child table usr_phone: log events of its columns, or set "
    'child_row_events = "read"'
)
ROW_QUERY_BACK = (
    "a row query-back (5, 6) of the same object and poll publishes its columns and those of its child "
    "tables"
)
NO_DATABASE = (
    "the event reads the current row and no database is set: give --database URL or [database] url"
)


@pytest.mark.parametrize(
    ("event_", "lines"),
    [
        ("2|usr_phone|idu=1|phoneno|1|2", [LOGGED, PHONE, "outcome: published, status S"]),
        ("2|usr|idu=1|usr_phone.phoneno|1|2", [PHONE, "outcome: published, status S"]),
        ("2|usr|idu=1|fname|1|2", ["outcome: published, status S"]),
        (
            "4|usr_phone|idu=1",
            [
                "logged as: table usr_phone",
                "class: table indirect.usr",
                f"outcome: rejected (child-row), {E}",
                f"because: {CHILD_ROW}",
            ],
        ),
        (
            "8|usr_phone|idu=1|phoneno",
            [
                LOGGED,
                PHONE,
                f"outcome: rejected (no-database), {E}",
                f"because: {NO_DATABASE}",
            ],
        ),
    ],
)
def test_the_names_in_the_log_and_the_child_table_are_shown(
    tmp_path: Path, event_: str, lines: Sequence[str]
) -> None:
    assert lines_of(replay_events(tmp_path, [event_]), "1") == lines


@pytest.mark.parametrize(
    ("settings", "event_", "lines"),
    [
        (
            'exclude = ["usr_p*"]',
            "2|usr_phone|idu=1|phoneno|1|2",
            ["because: table_name 'usr_phone' is excluded, or belongs to a system schema"],
        ),
        (
            'exclude = ["*.usr_p*"]',
            "2|usr|idu=1|usr_phone.phoneno|1|2",
            [PHONE, "because: column usr_phone.phoneno: exclude has '*.usr_p*'"],
        ),
        (
            'exclude_columns = ["PHONENO"]',
            "2|usr_phone|idu=1|phoneno|1|2",
            [LOGGED, PHONE, "because: column usr_phone.phoneno: exclude_columns has 'phoneno'"],
        ),
        (
            'include_columns = ["fname"]',
            "2|usr|idu=1|usr_phone.phoneno|1|2",
            [PHONE, "because: column usr_phone.phoneno: include_columns does not name it"],
        ),
        (
            'include = ["grp"]',
            "2|usr|idu=1|fname|1|2",
            ["because: table indirect.usr: include does not name it"],
        ),
    ],
)
def test_the_filter_of_an_excluded_value_is_named(
    tmp_path: Path, settings: str, event_: str, lines: list[str]
) -> None:
    job = JOB.replace("[source]", f"[source]\n{settings}")
    shown = lines_of(replay_events(tmp_path, [event_], job=job), "1")
    assert shown == [*lines[:-1], f"outcome: ignored (excluded), {W}", lines[-1]]


def test_values_that_are_not_read_have_their_reason(tmp_path: Path) -> None:
    several = "CREATE TABLE badge (idu INTEGER REFERENCES usr, no TEXT, place TEXT);"
    events = [
        "2|usr_phone|idu=1|phoneno|1|2",
        "6|usr|idu=1",
        "8|usr_phone|idu=77|phoneno",
        "2|usr_phone|idu=1|idu|1|2",
        "2|badge|idu=1|no|1|2",
    ]
    folder = replay_events(tmp_path, events, job=database_job(tmp_path, SCHEMA + several))
    assert lines_of(folder, "1")[2:] == [
        "outcome: superseded (row-query-back), status S",
        f"because: {ROW_QUERY_BACK}",
        "see: 2",
    ]
    assert lines_of(folder, "3")[1:] == [
        PHONE,
        f"outcome: ignored (row-gone), {W}",
        "because: the row of usr no longer exists, so its child tables were not read",
    ]
    assert lines_of(folder, "4")[-1].startswith(
        "because: column 'idu' of child table usr_phone is left out of class usr"
    )
    assert lines_of(folder, "5")[-1].startswith(
        "because: child table badge has several columns of values, no, place"
    )


def test_a_view_is_named_with_the_variant_in_the_log(tmp_path: Path) -> None:
    schema = VIEWED + VIEW + "INSERT INTO person VALUES (1, 'Jack', 2);"
    events = ["8|view_usr|idu=1|MV_PHONENO", "8|view_usr|idu=1|sv_fname"]
    folder = replay_events(tmp_path, events, job=direct_job(tmp_path, schema))
    view = "class: view direct.view_usr"
    assert lines_of(folder, "1")[:2] == ["logged as: column MV_PHONENO", view]
    *names, outcome, because = lines_of(folder, "2")
    assert names == ["logged as: column sv_fname", view]
    assert outcome == f"outcome: rejected (several-values), {E}"
    assert "2 values of fname, which is single-valued" in because


@pytest.mark.parametrize("format_", RECORDERS)
def test_rows_of_child_tables_name_them_in_every_format(
    tmp_path: Path, format_: FormatName
) -> None:
    paths = RECORDERS[format_].write(tmp_path, story())
    job = tmp_path / "job.toml"
    settings = RECORDERS[format_].settings.replace("\n", "\nexclude_columns = ['manager']\n", 1)
    job.write_text(settings + CLASSES, "utf-8")
    replay(load(job), paths, str(tmp_path / "out"))
    texts = ["\n".join(stories_text([found])) for found in explain(tmp_path / "out", "idu=1")]
    children = [text for text in texts if "usr_phone.phoneno" in text]
    name = "indirect.usr_phone" if format_ == "change-table" else "usr_phone"
    assert children
    assert all(f"logged as   table {name}\n" in text for text in children)
    assert all("table indirect.usr; values of child table usr_phone\n" in text for text in children)
    others = [text for text in texts if "usr_phone.phoneno" not in text]
    assert any("left out    manager: exclude_columns has 'manager'" in text for text in others)
    assert not any("logged as" in text for text in others)


def test_compared_tables_name_the_child_table_of_each_column(tmp_path: Path) -> None:
    write_classes(tmp_path, {"usr": [("1", "Ann")], "phone": [("1", "2")], "member": []})
    report = publish_classes(tmp_path)
    (found,) = explain(Path(report.ledger), "idu=1")
    assert found.resolution is not None
    columns = {column.name: column.child for column in found.resolution.columns}
    assert columns == {"fname": None, "phone.no": "phone"}
    assert "class: table usr; values of child table phone" in lines_of(Path(report.ledger), "idu=1")

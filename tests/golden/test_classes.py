"""Classes: event logs on parent and child tables against whole operations in ``classes/``.

Each story is an event log, written as ``type|table|key|column|old|new`` (NULL if empty), and gives the
operations of one file, however its events name table and column.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from publisher.config.job_file import load
from publisher.reports.explain import explain
from publisher.runs.replay import replay
from publisher.xds.validate import validate_files
from tests.golden.stories import operations, operations_in
from tests.support.event_log_files import csv_text, event

pytestmark = pytest.mark.usefixtures("local_engine")

EXPECTED = Path(__file__).parent / "classes"
JOB = """
[source]
schema = "indirect"

[tables.usr]
schema = "indirect"
key = ["idu"]
columns = { idu = "int", fname = "string", manager = "int" }
complete = true
references = { manager = { table = "usr" }, "usr_mbr_of.idg" = { table = "grp" } }

[tables.usr.children]
usr_phone = { columns = { phoneno = "string" } }
usr_fax = { columns = { faxno = "string" } }
usr_mbr_of = { columns = { idg = "int" } }

[tables.grp]
schema = "indirect"
key = ["idg"]
columns = { idg = "int" }
"""


class ClassStory(NamedTuple):
    """The name of the expected operations, the events, and settings besides ``JOB``."""

    expected: str
    events: Sequence[str]
    settings: str = ""


E1 = ["1|usr|idu=1|fname||John", "1|usr_phone|idu=1|phoneno||111-1111"]
E2 = "2|usr_phone|idu=1|phoneno|111-1111|333-3333"
STORIES = [
    ClassStory("E1", [*E1, "1|usr|idu=1|usr_phone.phoneno||222-2222"]),
    ClassStory("E1", [*E1, "1|usr_phone|idu=1|usr_phone.phoneno||222-2222"]),
    ClassStory("E1", [*E1, "1|indirect.usr_phone|idu= 1|indirect.usr_phone.phoneno||222-2222"]),
    ClassStory("E1", [*E1, '1|INDIRECT.USR|IDU=01|"Usr_Phone"."PHONENO"||222-2222']),
    ClassStory(
        "E1",
        ["1|USR|idu=1|indirect.usr.FNAME||John", *E1[1:], "1|USR_PHONE|idu=1|PHONENO||222-2222"],
    ),
    ClassStory("E2", [E2, "2|usr_phone|idu=1|phoneno||444-4444"]),
    ClassStory("E3", [E2.replace("2|", "3|", 1)]),
    ClassStory("manager-removed", ["2|usr|idu=1|manager|2|"]),
    ClassStory("group-added", ["1|usr_mbr_of|idu=1|idg||07"]),
]


AFTER_DELETE = "2|usr_phone|idu=1|phoneno|111-1111|"
REFUSED = [
    ("1|usr|idu=1|phoneno||x", "rejected: column-name"),
    ("1|usr_phone|idu=1|fname||x", "rejected: column-name"),
    ("1|usr_phone|idu=1|usr_fax.faxno||x", "rejected: column-name"),
    ("1|usr_phone|user_id=1|phoneno||x", "rejected: table-key"),
    ("4|usr_phone|idu=1", "rejected: child-row"),
    ("5|usr_phone|idu=1", "rejected: child-row"),
    ("2|usr|idu=1|manager|x|", "rejected: value"),
]
"""Events that are rejected, each with its decision."""


def log_of(events: Sequence[str]) -> str:
    """An event log as CSV."""
    names = ("event_type", "table_name", "table_key", "column_name", "old_value", "new_value")
    rows = [
        event(
            number,
            **{name: text or None for name, text in zip(names, line.split("|"), strict=False)},
        )
        for number, line in enumerate(events, 1)
    ]
    return csv_text(rows)


def replay_events(
    folder: Path, events: Sequence[str], settings: str = "", lanes: int = 1, job: str = JOB
) -> Path:
    """Replays events and returns the directory of the documents."""
    (folder / "log.csv").write_text(log_of(events), "utf-8")
    path = folder / "job.toml"
    path.write_text(f"{settings}{job}\n[run]\nlanes = {lanes}\n", "utf-8")
    replay(load(path), [folder / "log.csv"], str(folder / "documents"))
    return folder / "documents"


SCHEMA = """
CREATE TABLE grp (idg INTEGER PRIMARY KEY);
CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(64), manager INTEGER REFERENCES usr);
CREATE TABLE usr_phone (idu INTEGER NOT NULL REFERENCES usr, phoneno VARCHAR(64) NOT NULL);
CREATE TABLE usr_fax (idu INTEGER NOT NULL REFERENCES usr (idu), faxno VARCHAR(64) NOT NULL);
CREATE TABLE usr_mbr_of (idu INTEGER NOT NULL REFERENCES usr, idg INTEGER NOT NULL REFERENCES grp);
INSERT INTO grp VALUES (7), (9);
INSERT INTO usr VALUES (2, 'Ann', NULL), (1, 'John', 2);
INSERT INTO usr_phone VALUES (1, '222-2222'), (1, '111-1111'), (1, '222-2222');
INSERT INTO usr_mbr_of VALUES (1, 9), (1, 7);
"""
READING_STORIES = [
    ClassStory("E1", STORIES[0].events),
    ClassStory("E2", STORIES[5].events),
    ClassStory("E4", ["6|usr|idu=1"]),
    ClassStory("E4", ["5|usr|idu=1"]),
    ClassStory("E4", ["6|usr|idu=1", "2|usr_phone|idu=1|phoneno|1|2", "8|usr_phone|idu=1|phoneno"]),
    ClassStory("E5", ["8|usr_phone|idu=1|phoneno"]),
    ClassStory("E5", [E2, "8|usr|idu=1|usr_phone.phoneno"]),
    ClassStory("E5", ["6|usr_phone|idu=1"], '[classes]\nchild_row_events = "read"\n'),
    ClassStory("inserted", ["5|usr|idu=1"], '[documents]\ninsert_query_back = "add"\n'),
    ClassStory("row-2", ["6|usr|idu=2"]),
    ClassStory("plain-manager", ["8|usr|idu=1|manager"], "[classes]\nenable_refs = false\n"),
]


def database_job(folder: Path, schema: str = SCHEMA) -> str:
    """A job file with a database of these tables and nothing declared."""
    path = folder / "hr.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
    return f'[source]\nschema = "indirect"\n[database]\nurl = "sqlite:///{path}"\nschema = "indirect"\n'


def operations_of(folder: Path) -> list[bytes]:
    return [text for part in sorted(folder.rglob("*.xds")) for text in operations_in(part)]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.expected} {story.events[-1]}")
@pytest.mark.parametrize("lanes", [1, 5])
def test_events_on_child_tables_belong_to_the_object_of_their_parent(
    story: ClassStory, lanes: int, tmp_path: Path
) -> None:
    given = operations_of(replay_events(tmp_path, story.events, story.settings, lanes))
    lines = (EXPECTED / f"{story.expected}.xml").read_text("utf-8").splitlines()
    assert given == operations(lines)


@pytest.mark.parametrize(
    "story", READING_STORIES, ids=lambda story: f"{story.expected} {story.events[-1]}"
)
@pytest.mark.parametrize("neighbours", [0, 3])
def test_classes_found_by_the_keys_of_a_database_are_read_whole(
    story: ClassStory, neighbours: int, tmp_path: Path
) -> None:
    others = [f"4|grp|idg={number}" for number in range(neighbours)]
    folder = replay_events(
        tmp_path, [*story.events, *others], story.settings, job=database_job(tmp_path)
    )
    lines = (EXPECTED / f"{story.expected}.xml").read_text("utf-8").splitlines()
    given = [text for text in operations_of(folder) if b'class-name="grp"' not in text]
    assert given == operations(lines)


def outcomes_of(folder: Path, count: int) -> list[str]:
    """The outcome of each event, with its reason if it has one."""
    stories = [explain(folder, str(number))[0] for number in range(1, count + 1)]
    return [
        f"{story.outcome}: {story.reason}" if story.reason else story.outcome for story in stories
    ]


@pytest.mark.parametrize(("event_", "outcome"), REFUSED)
def test_an_event_that_fits_no_class_is_rejected(event_: str, outcome: str, tmp_path: Path) -> None:
    assert outcomes_of(replay_events(tmp_path, [event_]), 1) == [outcome]


def test_changes_of_children_after_the_delete_of_their_object_are_ignored(tmp_path: Path) -> None:
    folder = replay_events(tmp_path, ["4|usr|idu=1", AFTER_DELETE, "3|usr_fax|idu=1|faxno||1"])
    ignored = "ignored: child-after-delete"
    assert outcomes_of(folder, 3) == ["published", ignored, ignored]


@pytest.mark.parametrize("insert", ["1|usr|idu=1|fname||Ann", "1|usr_fax|idu=1|faxno||1"])
def test_changes_of_children_count_again_after_an_insert(insert: str, tmp_path: Path) -> None:
    folder = replay_events(tmp_path, [E2, "4|usr|idu=1", AFTER_DELETE, insert, AFTER_DELETE])
    ignored = "ignored: child-after-delete"
    assert outcomes_of(folder, 5) == ["published", "published", ignored, "published", "published"]


def test_changes_of_children_in_later_polls_are_ignored(tmp_path: Path) -> None:
    job = JOB.replace("[source]", "[source]\npoll_size = 1\npoll_slack = 0")
    other = ["1|usr|idu=2|fname||Ann"] * 3
    folder = replay_events(tmp_path, ["4|usr|idu=1", *other, AFTER_DELETE], job=job)
    assert outcomes_of(folder, 5) == ["published"] * 4 + ["ignored: child-after-delete"]


def test_changes_of_children_count_again_if_another_object_gets_the_key(tmp_path: Path) -> None:
    job = JOB.replace("[source]", '[source]\nkey_change = "modify-association"')
    events = ["4|usr|idu=1", AFTER_DELETE, "2|usr|idu=5|idu|5|1", AFTER_DELETE]
    folder = replay_events(tmp_path, events, lanes=3, job=job)
    ignored = "ignored: child-after-delete"
    assert outcomes_of(folder, 4) == ["published", ignored, "published", "published"]


def test_changes_of_children_under_a_key_that_no_object_has_any_more_are_ignored(
    tmp_path: Path,
) -> None:
    job = JOB.replace("[source]", '[source]\nkey_change = "modify-association"')
    events = ["2|usr|idu=1|idu|1|5", AFTER_DELETE, AFTER_DELETE.replace("idu=1", "idu=5")]
    folder = replay_events(tmp_path, events, lanes=3, job=job)
    assert outcomes_of(folder, 3) == ["published", "ignored: child-after-delete", "published"]


def test_changes_of_children_after_a_delete_are_published_where_it_is_set(tmp_path: Path) -> None:
    settings = '[classes]\nchild_after_delete = "publish"\n'
    folder = replay_events(tmp_path, ["4|usr|idu=1", AFTER_DELETE], settings)
    assert outcomes_of(folder, 2) == ["published", "published"]


@pytest.mark.parametrize(
    ("exclude", "is_excluded"),
    [
        ('exclude = ["usr_phone"]', [False, True, True]),
        ('exclude = ["*.USR_PHONE"]', [False, True, True]),
        ('exclude = ["usr"]', [True, True, True]),
        ('exclude_columns = ["phoneno"]', [False, True, True]),
        ('exclude_columns = ["usr_phone.*"]', [False, True, True]),
        ('exclude_columns = ["usr.usr_phone.phoneno"]', [False, True, True]),
        ('exclude_columns = ["fname"]', [True, False, False]),
        ('exclude = ["usr_fax"]', [False, False, False]),
    ],
)
def test_filters_know_children_by_all_their_names(
    exclude: str, is_excluded: list[bool], tmp_path: Path
) -> None:
    events = [
        "1|usr|idu=1|fname||John",
        "1|usr_phone|idu=1|phoneno||1",
        "1|usr|idu=1|usr_phone.phoneno||2",
    ]
    job = JOB.replace("[source]", f"[source]\n{exclude}")
    folder = replay_events(tmp_path, events, job=job)
    expected = ["ignored: excluded" if excluded else "published" for excluded in is_excluded]
    assert outcomes_of(folder, 3) == expected


def test_without_references_the_values_are_plain(tmp_path: Path) -> None:
    settings = "[classes]\nenable_refs = false\n"
    folder = replay_events(tmp_path, ["3|usr|idu=1|manager||2"], settings)
    assert b'<add-value><value type="int">2</value></add-value>' in operations_of(folder)[0]


@pytest.mark.parametrize(("text", "shown"), [("key", b"idu=2"), ("empty", b"")])
def test_the_text_of_references_is_a_setting(text: str, shown: bytes, tmp_path: Path) -> None:
    settings = f'[documents]\nreference_text = "{text}"\n'
    folder = replay_events(tmp_path, ["3|usr|idu=1|manager||2"], settings)
    assert b'schema=indirect" type="dn">' + shown + b"</value>" in operations_of(folder)[0]


def test_minimal_metadata_publishes_the_rows_of_each_table(tmp_path: Path) -> None:
    settings = "[classes]\nminimal_metadata = true\n"
    folder = replay_events(tmp_path, ["1|usr_phone|idu=1|phoneno||1"], settings)
    assert b'<add class-name="usr_phone">' in operations_of(folder)[0]


def test_an_attribute_may_have_a_hundred_thousand_values(tmp_path: Path) -> None:
    many = """
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
        INSERT INTO usr_fax SELECT 2, i FROM n;
    """
    job = database_job(tmp_path, SCHEMA + many)
    folder = replay_events(tmp_path, ["8|usr_fax|idu=2|faxno", "6|usr|idu=1"], job=job)
    (given,) = (
        text for text in operations_of(folder) if b"idu=2,table=usr,schema=indirect</a" in text
    )
    assert given.count(b"<value ") == 100_000
    assert list(validate_files(folder.rglob("*.xds"))) == []


def test_an_object_without_its_parent_row_is_gone_whatever_children_it_has(tmp_path: Path) -> None:
    job = database_job(tmp_path, SCHEMA + "INSERT INTO usr_fax VALUES (3, '1');")
    folder = replay_events(tmp_path, ["6|usr|idu=3", "8|usr_fax|idu=3|faxno"], job=job)
    assert outcomes_of(folder, 2) == ["ignored: row-gone", "superseded: row-query-back"]


def test_events_on_tables_outside_the_list_are_rejected(tmp_path: Path) -> None:
    settings = '[classes]\nsync_filter = "list"\nsync_tables = ["indirect.usr"]\n'
    events = ["3|usr_phone|idu=1|phoneno||1", "8|usr_mbr_of|idu=1|idg", "4|grp|idg=7"]
    folder = replay_events(tmp_path, events, settings, job=database_job(tmp_path))
    assert outcomes_of(folder, 3) == ["published", "published", "rejected: table-name"]
    assert b'<value type="int">7</value><value type="int">9</value>' in operations_of(folder)[0]

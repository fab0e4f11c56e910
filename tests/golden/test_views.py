"""Views as classes: event logs on views against whole operations in ``classes/``."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.reports.check import check
from tests.golden.stories import operations
from tests.golden.test_classes import (
    EXPECTED,
    ClassStory,
    database_job,
    operations_of,
    outcomes_of,
    replay_events,
)

pytestmark = pytest.mark.usefixtures("local_engine")

SCHEMA = """
CREATE TABLE person (id INTEGER NOT NULL, fname VARCHAR(64), boss INTEGER);
CREATE TABLE phone (id INTEGER NOT NULL, phoneno VARCHAR(64));
CREATE TABLE member (id INTEGER NOT NULL, grp INTEGER);
CREATE TABLE grp (idg INTEGER PRIMARY KEY);
INSERT INTO person VALUES (1, 'John', 2), (2, 'Ann', NULL);
INSERT INTO phone VALUES (1, '222-2222'), (1, '111-1111');
INSERT INTO member VALUES (1, 9), (1, 7);
"""
USR = """
CREATE VIEW view_usr (pk_idu, sv_fname, mv_phoneno, fk__idu__manager) AS
    SELECT person.id, fname, phoneno, boss FROM person LEFT JOIN phone ON phone.id = person.id;
"""
JOINED = """
CREATE VIEW view_usr (PK_SV_1__idu__idu, FName, MV_phoneno, FK_sv_2__IDU__manager, Fk_Mv__idg__mbr_of) AS
    SELECT person.id, fname, phoneno, boss, grp FROM person
    LEFT JOIN phone ON phone.id = person.id LEFT JOIN member ON member.id = person.id;
"""
E6 = ["6|view_usr|pk_idu=1"]
READING_STORIES = [
    ClassStory("E6", E6),
    ClassStory("E6", ["5|direct.VIEW_USR|PK_SV_9__idu__IDU=01"]),
    ClassStory("E6", [*E6, "2|view_usr|idu=1|mv_phoneno|1|2", "8|view_usr|sv_idu=1|FNAME"]),
    ClassStory("E6-phone", ["8|view_usr|idu=1|phoneno"]),
    ClassStory("E6-phone", ["3|view_usr|PK_IDU=1|MV_PHONENO||1", "8|view_usr|idu=1|Sv_Phoneno"]),
    ClassStory("E6-manager", ["8|view_usr|idu=1|fk__idu__manager"]),
    ClassStory("E6-manager", ["8|view_usr|idu=1|direct.view_usr.manager"]),
    ClassStory("E6-row-2", ["6|view_usr|idu=2"]),
    ClassStory("E6-inserted", ["5|view_usr|idu=1"], '[documents]\ninsert_query_back = "add"\n'),
    ClassStory("E6-plain", E6, "[classes]\nenable_refs = false\n"),
]

DECLARED = """
[source]
schema = "direct"

[tables.view_usr]
schema = "direct"
view = true
columns = { pk_idu = "int", sv_fname = "string", mv_phoneno = "string", fk__idu__manager = "int" }
"""
PHONE = "2|view_usr|idu=1|mv_phoneno|111-1111|333-3333"
STORIES = [
    ClassStory("E6-phones", [PHONE, "2|view_usr|idu=1|phoneno||444-4444"]),
    ClassStory(
        "E6-phones", [PHONE.replace("idu=", "PK_IDU="), "2|VIEW_USR|idu=1|PHONENO||444-4444"]
    ),
    ClassStory("E6-added", ["1|view_usr|idu=1|fname||John", "1|view_usr|idu=1|fk_manager||02"]),
    ClassStory(
        "E6-added", ["1|view_usr|pk_idu=1|sv_fname||John", "1|view_usr|idu=1|fk__x__manager||2"]
    ),
    ClassStory("E6-manager-removed", ["2|view_usr|idu=1|manager|2|"]),
]


def direct_job(folder: Path, schema: str = SCHEMA + USR) -> str:
    """A job file with a database of these tables and views, which associations call ``direct``."""
    return database_job(folder, schema).replace('"indirect"', '"direct"')


def operations_in_golden(name: str) -> list[bytes]:
    return operations((EXPECTED / f"{name}.xml").read_text("utf-8").splitlines())


@pytest.mark.parametrize(
    "story", READING_STORIES, ids=lambda story: f"{story.expected} {story.events[-1]}"
)
@pytest.mark.parametrize("neighbours", [0, 3])
def test_objects_of_views_are_read_whole(
    story: ClassStory, neighbours: int, tmp_path: Path
) -> None:
    others = [f"4|grp|idg={number}" for number in range(neighbours)]
    folder = replay_events(
        tmp_path, [*story.events, *others], story.settings, job=direct_job(tmp_path)
    )
    given = [text for text in operations_of(folder) if b'class-name="grp"' not in text]
    assert given == operations_in_golden(story.expected)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.expected} {story.events[-1]}")
@pytest.mark.parametrize("lanes", [1, 5])
def test_a_view_described_in_the_job_file_needs_no_database(
    story: ClassStory, lanes: int, tmp_path: Path
) -> None:
    folder = replay_events(tmp_path, story.events, lanes=lanes, job=DECLARED)
    assert operations_of(folder) == operations_in_golden(story.expected)


def test_each_value_of_a_view_that_joins_several_tables_is_published_once(tmp_path: Path) -> None:
    folder = replay_events(tmp_path, E6, job=direct_job(tmp_path, SCHEMA + JOINED))
    (operation,) = operations_of(folder)
    assert operation.count(b"<value ") == 6
    assert operation == operations_in_golden("E6-joined")[0]


REFUSED = [
    ("6|view_usr|name=1", "rejected: table-key"),
    ("8|view_usr|idu=1|phone", "rejected: column-name"),
    ("2|view_usr|idu=1|pk_idu|1|5", "rejected: key-change"),
    ("6|view_usr|idu=3", "ignored: row-gone"),
    ("6|view_usr|idu=x", "rejected: table-key"),
]


@pytest.mark.parametrize(("event", "outcome"), REFUSED)
def test_an_event_that_fits_no_column_of_the_view_is_rejected(
    event: str, outcome: str, tmp_path: Path
) -> None:
    assert outcomes_of(replay_events(tmp_path, [event], job=direct_job(tmp_path)), 1) == [outcome]


WRONG_VIEWS = [
    ("(fname, mv_phoneno)", "no column begins with pk_: name the key columns pk_COLUMN"),
    ("(pk_idu, fk_manager)", "column fk_manager names no key: write fk__KEY__manager"),
    ("(pk_idu, fk__none__boss)", "refers to none, the key of no class: refer to one key"),
    ("(pk_idu, fk__idg__boss)", "refers to idg, the key of grp and view_grp: refer to one"),
    ("(pk_idu, fk__a__boss)", "refers to a, a part of the key of site: refer to one key"),
    ("(pk_idu, IDU)", "2 columns have the effective name idu: rename all except one"),
    ("(pk_idu, sv_pk_idu)", "column sv_pk_idu is pk_idu in documents"),
]


@pytest.mark.parametrize(("columns", "problem"), WRONG_VIEWS)
def test_a_view_that_is_no_class_is_refused_with_the_cause(
    columns: str, problem: str, tmp_path: Path
) -> None:
    schema = f"""{SCHEMA}
        CREATE TABLE site (a INTEGER, b INTEGER, PRIMARY KEY (a, b));
        CREATE VIEW view_grp (pk_idg) AS SELECT idg FROM grp;
        CREATE VIEW broken (pk_idu) AS SELECT absent FROM grp;
        CREATE VIEW view_usr {columns} AS SELECT 1, 2;
    """
    folder = replay_events(tmp_path, E6, job=direct_job(tmp_path, schema))
    assert outcomes_of(folder, 1) == ["rejected: table-name"]
    assert problem in (folder / "rejects.jsonl").read_text("utf-8")


def test_two_values_of_a_single_valued_column_are_rejected(tmp_path: Path) -> None:
    schema = SCHEMA + USR + "INSERT INTO person VALUES (1, 'Jack', 2), (2, NULL, NULL);"
    events = [*E6, "6|view_usr|idu=2"]
    folder = replay_events(tmp_path, events, job=direct_job(tmp_path, schema))
    assert outcomes_of(folder, 2) == ["rejected: several-values", "published"]
    rejects = (folder / "rejects.jsonl").read_text("utf-8")
    assert "2 values of fname, which is single-valued: name the column mv_fname" in rejects
    assert operations_of(folder) == operations_in_golden("E6-row-2")


def test_prefixes_are_parts_of_names_without_meta_identifiers(tmp_path: Path) -> None:
    settings = "[classes]\nenable_meta_identifiers = false\n"
    job = direct_job(tmp_path) + '[tables.view_usr]\nkey = ["pk_idu"]\n'
    events = ["6|view_usr|pk_idu=2", "6|view_usr|pk_idu=1", "8|view_usr|pk_idu=2|fname"]
    folder = replay_events(tmp_path, events, settings, job=job)
    assert outcomes_of(folder, 3) == [
        *("published", "rejected: database-refused", "rejected: column-name")
    ]
    (operation,) = operations_of(folder)
    for name in (b"sv_fname", b"mv_phoneno", b"fk__idu__manager"):
        assert b'attr-name="' + name in operation


def test_minimal_metadata_takes_several_values_and_references_away(tmp_path: Path) -> None:
    settings = "[classes]\nminimal_metadata = true\n"
    events = ["6|view_usr|idu=2", "6|view_usr|pk_idu=1", "8|view_usr|idu=2|mv_phoneno"]
    folder = replay_events(tmp_path, events, settings, job=direct_job(tmp_path))
    assert outcomes_of(folder, 3) == [
        *("published", "rejected: several-values", "superseded: row-query-back")
    ]
    (operation,) = operations_of(folder)
    assert b"<association>pk_idu=2,table=view_usr,schema=direct</association>" in operation
    for name in (b"fname", b"phoneno", b"fk_manager"):
        assert b'attr-name="' + name in operation
    events = ["3|view_usr|idu=1|fk__idu__manager||2"]
    folder = tmp_path / "declared"
    folder.mkdir()
    (operation,) = operations_of(replay_events(folder, events, settings, job=DECLARED))
    assert b'<value type="int">2</value>' in operation


@pytest.mark.parametrize("name", ["manager", "FK_MANAGER", "fk__idu__manager"])
def test_types_of_columns_are_declared_by_any_variant_of_their_names(
    name: str, tmp_path: Path
) -> None:
    job = f'{direct_job(tmp_path)}[tables.view_usr]\ncolumns = {{ {name} = "string" }}\n'
    plain = "[classes]\nenable_refs = false\n"
    folder = replay_events(tmp_path, ["8|view_usr|idu=1|manager"], plain, job=job)
    assert b'attr-name="fk_manager"' in operations_of(folder)[0]
    assert b'<value type="string">2</value>' in operations_of(folder)[0]


@pytest.mark.parametrize(
    ("column", "more", "is_known"),
    [
        ("manager", "", True),
        ("MV_Fname", "", True),
        ("pk_manager", "", True),
        ("sv_absent", "", False),
        ("manager", "enable_meta_identifiers = false", False),
        ("SV_fname", "enable_meta_identifiers = false", True),
    ],
)
def test_check_compares_columns_of_views_by_their_variants(
    column: str, more: str, is_known: bool, tmp_path: Path
) -> None:
    path = tmp_path / "job.toml"
    log = '[[sources]]\nformat = "event-log"\nsnapshots = ["log.csv"]\n'
    declared = f'[tables.view_usr]\ncolumns = {{ {column} = "string" }}\n[classes]\n{more}\n'
    path.write_text(direct_job(tmp_path).replace("[source]", log) + declared, "utf-8")
    (finding,) = (found for found in check(load(path)) if found.what == "tables")
    assert finding.ok == is_known
    assert is_known or f"table view_usr has no column {column}" in finding.detail


@pytest.mark.parametrize("setting", ["child_after_delete", ""])
def test_removed_values_after_the_delete_of_their_object_are_ignored(
    setting: str, tmp_path: Path
) -> None:
    settings = f'[classes]\n{setting} = "publish"\n' if setting else ""
    events = ["4|view_usr|idu=1", "2|view_usr|idu=1|mv_phoneno|1|", "2|view_usr|idu=1|fname|1|2"]
    folder = replay_events(tmp_path, events, settings, job=DECLARED)
    outcome = "published" if setting else "ignored: child-after-delete"
    assert outcomes_of(folder, 3) == ["published", outcome, "published"]


@pytest.mark.parametrize(
    "name", ["mv_phoneno", "PHONENO", "view_usr.mv_phone*", "view_usr.phoneno"]
)
def test_filters_know_the_columns_of_views_by_all_their_names(name: str, tmp_path: Path) -> None:
    job = direct_job(tmp_path).replace("[source]", f'[source]\nexclude_columns = ["{name}"]')
    folder = replay_events(tmp_path, [*E6, "2|view_usr|idu=2|phoneno|1|2"], job=job)
    assert outcomes_of(folder, 2) == ["published", "ignored: excluded"]
    (operation,) = operations_of(folder)
    assert b"phoneno" not in operation
    assert b"fk_manager" in operation


@pytest.mark.parametrize("case", ["as written", "lower", "upper"])
def test_the_case_of_identifiers_applies_to_the_names_of_attributes(
    case: str, tmp_path: Path
) -> None:
    job = direct_job(tmp_path).replace("[source]", f'[source]\nidentifier_case = "{case}"')
    folder = replay_events(tmp_path, ["8|view_usr|idu=1|mv_phoneno"], job=job)
    (operation,) = operations_of(folder)
    change = bytes.upper if case == "upper" else bytes.lower
    assert change(b"pk_idu=1,table=view_usr").replace(b"TABLE=", b"table=") in operation
    assert b'attr-name="' + change(b"phoneno") + b'"' in operation


def test_names_with_dots_and_quotes_are_names_as_others(tmp_path: Path) -> None:
    view = """CREATE VIEW "view.usr" ("pk_i.d", "mv_a.""b", "fk__i.d__c.d") AS
        SELECT 1, 'x', 2 UNION SELECT 1, 'y', 2;"""
    events = ['6|"view.usr"|i.d=1', '8|"view.usr"|"pk_sv_i.d"=1|mv_a."b']
    folder = replay_events(tmp_path, events, job=direct_job(tmp_path, view))
    (operation,) = operations_of(folder)
    assert b'attr-name="a.&quot;b"' in operation
    assert operation.count(b"<value ") == 3
    assert b'association-ref="pk_i.d=2,table=view.usr,schema=direct"' in operation


def test_an_attribute_may_have_a_hundred_thousand_values(tmp_path: Path) -> None:
    view = """CREATE VIEW many (pk_id, name, mv_value) AS
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
        SELECT 1, 'same', i FROM n UNION ALL SELECT 2, 'other', 5;"""
    folder = replay_events(tmp_path, ["6|many|id=1", "6|many|id=2"], job=direct_job(tmp_path, view))
    counts = sorted(text.count(b"<value ") for text in operations_of(folder))
    assert counts == [2, 100_001]


def test_two_key_columns_make_a_compound_key_in_the_order_of_the_view(tmp_path: Path) -> None:
    view = """CREATE VIEW place (pk_site, mv_tag, pk_no) AS
        SELECT 'b', 'x', 1 UNION SELECT 'b', 'y', 1 UNION SELECT 'b', 'z', 2;"""
    events = ["6|place|no=1+site=b", "8|place|PK_site=b+pk_sv_no=1|tag"]
    folder = replay_events(tmp_path, events, job=direct_job(tmp_path, view))
    assert outcomes_of(folder, 2) == ["published", "superseded: row-query-back"]
    (operation,) = operations_of(folder)
    assert b"<association>pk_site=b+pk_no=1,table=place,schema=direct</association>" in operation
    assert operation.count(b"<value ") == 2


def test_a_view_may_change_its_columns_between_two_runs(tmp_path: Path) -> None:
    job = direct_job(tmp_path)
    first = replay_events(tmp_path, ["8|view_usr|idu=1|phoneno"], job=job)
    assert operations_of(first) == operations_in_golden("E6-phone")
    changed = USR.replace("mv_phoneno", "phoneno").replace("sv_fname", "mv_fname")
    with closing(sqlite3.connect(tmp_path / "hr.db")) as connection:
        connection.executescript("DROP VIEW view_usr;" + changed)
    (tmp_path / "again").mkdir()
    second = replay_events(
        tmp_path / "again", ["8|view_usr|idu=2|phoneno", "8|view_usr|idu=1|phoneno"], job=job
    )
    assert outcomes_of(second, 2) == ["published", "rejected: several-values"]

"""The command ``classes``: what is a class in a database, and what is not."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli

SCHEMA = """
CREATE TABLE grp (idg INTEGER PRIMARY KEY, name VARCHAR(9));
CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(9), manager INTEGER REFERENCES usr);
CREATE TABLE usr_phone (idu INTEGER REFERENCES usr, phoneno VARCHAR(9));
CREATE TABLE usr_mbr_of (idu INTEGER REFERENCES usr, idg INTEGER REFERENCES grp);
CREATE TABLE usr_card (idu INTEGER REFERENCES usr, no INTEGER, kind VARCHAR(9));
CREATE TABLE notes (text VARCHAR(9));
CREATE VIEW names AS SELECT fname FROM usr;
CREATE VIEW view_staff (pk_no, sv_name, mv_phoneno, fk__no__boss, fk_mv__idg__mbr_of) AS
    SELECT idu, fname, phoneno, manager, 7 FROM usr JOIN usr_phone USING (idu);
CREATE VIEW view_lost (pk_lost, fk__nowhere__boss) AS SELECT 1, 2;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "hr.db")) as connection:
        connection.executescript(SCHEMA)
    job = '[source]\nsnapshots = ["."]\n[database]\nurl = "sqlite:///hr.db"\nschema = "hr"\n'
    job += '[dispatch]\npath = "documents"\n'
    (tmp_path / "job.toml").write_text(job)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    result = CliRunner().invoke(cli, [arguments[0], "-c", str(folder / "job.toml"), *arguments[1:]])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_classes_are_shown_with_attributes_and_what_is_no_class(folder: Path) -> None:
    assert run(folder, "classes").splitlines() == [
        "grp: table in schema hr, key idg",
        "  name  string     single-valued",
        "usr: table in schema hr, key idu",
        "  fname              string     single-valued",
        "  manager            dn         single-valued  refers to idu=…,table=usr,schema=hr",
        "  usr_mbr_of.idg     dn         multi-valued  refers to idg=…,table=grp,schema=hr",
        "  usr_phone.phoneno  string     multi-valued",
        "view_staff: view in schema hr, key pk_no",
        "  name       string     single-valued",
        "  phoneno    string     multi-valued",
        "  fk_boss    dn         single-valued  refers to pk_no=…,table=view_staff,schema=hr",
        "  fk_mbr_of  dn         multi-valued  refers to idg=…,table=grp,schema=hr",
        (
            "not a class: names: view names: no column begins with pk_: name the key columns pk_COLUMN, "
            "or set the key in [tables.names]"
        ),
        "not a class: notes: it has no primary key: events publish its rows under the keys that they name",
        (
            "not a class: usr_card: child table usr_card has several columns of values, no, kind: set "
            'child_columns = "each", or declare it in [tables.usr.children]'
        ),
        (
            "not a class: view_lost: view view_lost: column fk__nowhere__boss refers to nowhere, the key of "
            "no class: refer to one key, name the classes in sync_tables, or set enable_refs = false"
        ),
    ]


def test_settings_change_what_is_a_class(folder: Path) -> None:
    with (folder / "job.toml").open("a") as job:
        job.write('[classes]\nsync_filter = "list"\nsync_tables = ["usr", "names"]\n')
        job.write('child_columns = "each"\nenable_refs = false\n')
    found = {entry["name"]: entry for entry in json.loads(run(folder, "classes", "--json"))}
    assert found["grp"]["problem"].startswith("table grp is neither in sync_tables nor a child")
    assert found["notes"]["problem"].startswith("table notes is neither")
    attributes = {entry["name"]: entry["type"] for entry in found["usr"]["attributes"]}
    assert attributes == {
        "fname": "string",
        "manager": "int",
        "usr_card.kind": "string",
        "usr_card.no": "int",
        "usr_mbr_of.idg": "int",
        "usr_phone.phoneno": "string",
    }


def test_check_counts_classes(folder: Path) -> None:
    result = CliRunner().invoke(cli, ["check", "-c", str(folder / "job.toml")])
    assert (
        "ok      classes: 3 class(es) with 4 multi-valued attribute(s) and 4 reference(s); not classes: "
        "names, notes, usr_card, view_lost (xds-publisher classes gives the reasons)"
    ) in result.stdout


def test_views_of_the_job_file_are_shown_without_a_database(tmp_path: Path) -> None:
    job = '[source]\nsnapshots = ["."]\n[dispatch]\npath = "documents"\n'
    columns = '{ pk_idu = "int", mv_phoneno = "string", fk__idu__boss = "int" }'
    job += f"[tables.view_usr]\nview = true\ncolumns = {columns}\n"
    job += '[tables.plain]\nview = true\ncolumns = { idu = "int" }\n'
    (tmp_path / "job.toml").write_text(job)
    assert run(tmp_path, "classes").splitlines() == [
        "view_usr: view, key pk_idu",
        "  phoneno  string     multi-valued",
        "  fk_boss  dn         single-valued  refers to pk_idu=…,table=view_usr",
        (
            "not a class: plain: view plain: no column begins with pk_: name the key columns pk_COLUMN, "
            "or set the key in [tables.plain]"
        ),
    ]

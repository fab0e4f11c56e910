"""Triggers of classes where databases differ: truncated tables, changed types, row security, cascades."""

from __future__ import annotations

import pytest

from publisher.errors import UsageError
from publisher.triggers import Refs, Style, TableRef, TriggerPlan, install, plan
from tests.services.databases import Place

USR = "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(64))"
PHONE = "CREATE TABLE usr_phone (idu INTEGER REFERENCES usr (idu), phoneno VARCHAR(64))"


def make(place: Place, style: Style = Style.PER_FIELD, table: str = "usr") -> TriggerPlan:
    database = place.database()
    planned = plan(database, Refs((TableRef(None, table),), TableRef(None, "event_log")), style)
    install(database, planned)
    return planned


def events(place: Place) -> list[tuple[object, ...]]:
    return place.query(
        "SELECT event_type, table_key, column_name, old_value, new_value FROM event_log"
        " WHERE event_type <> 1 ORDER BY record_id"
    )


def test_a_truncated_child_table_has_no_values(postgres: Place) -> None:
    postgres.execute(USR, PHONE)
    make(postgres)
    postgres.execute(
        "INSERT INTO usr VALUES (1, 'John')",
        "INSERT INTO usr_phone VALUES (1, '111')",
        "TRUNCATE usr_phone",
    )
    assert events(postgres) == [
        (2, "idu=1", "phoneno", None, "111"),
        (3, "idu=1", "phoneno", None, None),
    ]
    postgres.execute("TRUNCATE usr CASCADE")
    assert events(postgres)[2:] == [(4, "idu=1", None, None, None)]


def test_a_link_of_another_type_is_logged_as_unknown_until_the_triggers_are_made_again(
    postgres: Place,
) -> None:
    postgres.execute(USR, PHONE)
    make(postgres)
    postgres.execute(
        "INSERT INTO usr VALUES (1, 'John')", "ALTER TABLE usr_phone ALTER idu TYPE bigint"
    )
    postgres.execute("INSERT INTO usr_phone VALUES (1, '111')")
    ((key,),) = postgres.query("SELECT table_key FROM event_log ORDER BY record_id DESC LIMIT 1")
    assert "run xds-publisher ddl again" in key
    make(postgres)
    postgres.execute("TRUNCATE event_log", "INSERT INTO usr_phone VALUES (1, '222')")
    assert events(postgres) == [(2, "idu=1", "phoneno", None, "222")]


def test_tables_that_functions_cannot_read_safely_are_refused(postgres: Place) -> None:
    postgres.execute(USR, PHONE, "ALTER TABLE usr ENABLE ROW LEVEL SECURITY")
    with pytest.raises(UsageError, match="usr has row-level security"):
        make(postgres)
    postgres.execute(
        "ALTER TABLE usr DISABLE ROW LEVEL SECURITY",
        "DROP DOMAIN IF EXISTS number",
        "CREATE DOMAIN number AS integer",
        "ALTER TABLE usr_phone ALTER idu TYPE number",
    )
    with pytest.raises(UsageError, match=r"column idu of .*usr_phone has a user-defined type"):
        make(postgres)
    postgres.execute("DROP TABLE usr_phone", "DROP DOMAIN number")


def test_cascades_that_no_trigger_can_log_are_noted(mariadb: Place) -> None:
    mariadb.execute(
        "CREATE TABLE site (ids INTEGER PRIMARY KEY)",
        "CREATE TABLE unit (idn INTEGER PRIMARY KEY, above INTEGER, site INTEGER,"
        " CONSTRAINT of_unit FOREIGN KEY (above) REFERENCES unit (idn) ON DELETE CASCADE,"
        " CONSTRAINT of_site FOREIGN KEY (site) REFERENCES site (ids) ON DELETE SET NULL)",
    )
    notes = [note for note in make(mariadb, table="unit").notes if "foreign key" in note]
    assert [(note.split()[2], note.rpartition("; ")[2]) for note in notes] == [
        ("of_site", "log site, too"),
        ("of_unit", "delete the rows yourself, from the last one to the first"),
    ]

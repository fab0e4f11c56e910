"""SQL of triggers, whole, in ``triggers/``: for each database and style.

The services' tests run the same SQL; these show what a change of it changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import types
from sqlalchemy.dialects import mysql

from publisher.database.catalogue import Relation
from publisher.model.catalogue import ColumnKind, Table
from publisher.triggers import DatabaseKind, Style, TableRef, render
from publisher.triggers.mariadb_cascades import MariadbCascades
from publisher.triggers.model import LoggedTable
from publisher.triggers.render import script

EXPECTED = Path(__file__).parent / "triggers"
KINDS = {
    "idu": ColumnKind.INT,
    "mail box": ColumnKind.STRING,
    "active": ColumnKind.STATE,
    "seen": ColumnKind.TIMESTAMP,
    "photo": ColumnKind.OCTET,
}
TYPES: dict[str, types.TypeEngine[Any]] = {
    "idu": types.INTEGER(),
    "mail box": types.VARCHAR(),
    "active": types.BOOLEAN(),
    "seen": mysql.TIMESTAMP(),
    "photo": types.BLOB(),
}
CASTS = {
    "idu": "integer",
    "mail box": "character varying",
    "active": "boolean",
    "seen": "timestamp with time zone",
    "photo": "bytea",
}


def trigger_script(dialect: DatabaseKind, style: Style) -> str:
    schema = None if dialect == "sqlite" else "indirect"
    table = Table(schema, "usr", ("idu", "mail box"), KINDS, complete=True)
    relation = Relation(table, schema, TYPES, CASTS if dialect == "postgresql" else {})
    definition = "CREATE TABLE usr (...)" if dialect == "sqlite" else ""
    logged = LoggedTable(relation, TableRef(schema, "usr"), definition)
    log, cascades = TableRef(schema, "event_log"), MariadbCascades(style, [], [logged])
    return script(dialect, render(dialect, log, [logged], style, cascades=cascades))


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("dialect", list(DatabaseKind))
def test_triggers_are_written_so(dialect: DatabaseKind, style: Style) -> None:
    expected = (EXPECTED / f"{dialect}-{style}.sql").read_text("utf-8")
    assert trigger_script(dialect, style) == expected


def test_every_expected_file_is_compared() -> None:
    names = {f"{dialect}-{style}" for dialect in DatabaseKind for style in Style}
    assert {path.stem for path in EXPECTED.iterdir()} == names

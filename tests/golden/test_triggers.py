"""SQL of triggers, whole, in ``triggers/``: for each database and style.

The services' tests run the same SQL; these show what a change of it changes.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import types
from sqlalchemy.dialects import mysql

from publisher.database.catalogue import Relation
from publisher.model.catalogue import ColumnKind, Table
from publisher.triggers import Style, TableRef, mariadb, postgresql, sqlite
from publisher.triggers.model import LoggedTable, written_name

EXPECTED = Path(__file__).parent / "triggers"
DIALECTS = {"postgresql": postgresql, "mariadb": mariadb, "sqlite": sqlite}
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


def trigger_script(dialect: str, style: Style) -> str:
    module: ModuleType = DIALECTS[dialect]
    schema = None if dialect == "sqlite" else "indirect"
    table = Table(schema, "usr", ("idu", "mail box"), KINDS, complete=True)
    relation = Relation(table, schema, TYPES, CASTS if dialect == "postgresql" else {})
    definition = "CREATE TABLE usr (...)" if dialect == "sqlite" else ""
    logged = LoggedTable(relation, schema, written_name(schema, "usr"), definition=definition)
    log = TableRef(schema, "event_log")
    writer = [] if module is sqlite else module.writer_statements(log)
    text: str = module.script(
        [*module.log_statements(log), *writer, *module.table_statements(logged, log, style)]
    )
    return text


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_triggers_are_written_so(dialect: str, style: Style) -> None:
    expected = (EXPECTED / f"{dialect}-{style}.sql").read_text("utf-8")
    assert trigger_script(dialect, style) == expected


def test_every_expected_file_is_compared() -> None:
    names = {f"{dialect}-{style}" for dialect in DIALECTS for style in Style}
    assert {path.stem for path in EXPECTED.iterdir()} == names

"""Whoever is halt while it writes statuses lets the rows go; its own try is repeated and told."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import Connection

from publisher.acknowledge.write_status import log_table
from publisher.database import status_steps, statuses
from publisher.database.connection import Database
from publisher.errors import FatalError
from publisher.formats.event_log.fingerprints import fingerprints_of
from publisher.formats.event_log.options import EventLogOptions
from tests.services.databases import Place

IDS = np.arange(1, 4)
LETTERS = np.full(3, ord("S"), np.uint8)
ROWS = np.unique(fingerprints_of([pa.array(["1", "2", "3"]), *[pa.nulls(3, pa.string())] * 2]))


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_rows_of_a_halted_writer_are_free_again(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    place: Place = request.getfixturevalue("postgres" if kind == "postgresql" else "mariadb")
    monkeypatch.setattr(statuses, "IDLE_SECONDS", 1)
    place.execute(
        "CREATE TABLE log (record_id INTEGER PRIMARY KEY, status CHAR(1), event_time VARCHAR(40),"
        " table_key VARCHAR(40))",
        "INSERT INTO log (record_id, status) VALUES (1, 'N'), (2, 'N'), (3, 'N')",
    )
    change = statuses.StatusWriter.change_rows
    begun: list[int] = []

    def halt(
        writer: statuses.StatusWriter,
        connection: Connection,
        letter: str,
        where: object,
        known: status_steps.Ids | None,
    ) -> int:
        changed = change(writer, connection, letter, where, known)  # type: ignore[arg-type]
        if not begun:
            begun.append(changed)
            time.sleep(2)  # its transaction is gone when it wakes up
            with Database(place.database().options, writing=True) as newer:
                assert write_letters(newer) == {"S": 3}
        return changed

    def check_lease() -> None:
        if begun:
            raise FatalError("a newer one has begun")

    monkeypatch.setattr(statuses.StatusWriter, "change_rows", halt)
    with Database(place.database().options, writing=True) as database:
        log = log_table(database, "log", EventLogOptions())
        with pytest.raises(FatalError, match="a newer one has begun"):
            statuses.StatusWriter(database, log, check_lease).write(IDS, LETTERS, ROWS)
    assert begun == [3]


def write_letters(database: Database) -> dict[str, int]:
    log = log_table(database, "log", EventLogOptions())
    return dict(statuses.StatusWriter(database, log, lambda: None).write(IDS, LETTERS, ROWS))

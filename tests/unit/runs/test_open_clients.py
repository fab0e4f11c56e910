"""Clients are opened while the sink answers; a failed command does not wait for them."""

from __future__ import annotations

import socket
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.connection_cache import keep_connections
from publisher.errors import FatalError
from publisher.runs.open_clients import ClientOpener, open_clients
from publisher.runs.publisher_instance import publish
from tests.support.event_log_files import csv_text, event

_SINK = '[dispatch]\npath = "out"\n[run]\nengine = "local"\n'


def test_a_failed_publication_does_not_wait_for_a_database(tmp_path: Path) -> None:
    """The sink has a run of another ledger; the server accepts a connection and never answers."""
    (tmp_path / "log.csv").write_text(csv_text([event(1)]))
    job = tmp_path / "job.toml"
    job.write_text('[[sources]]\nname = "hr"\nsnapshots = ["log.csv"]\n' + _SINK)
    publish(load(job))
    (tmp_path / ".xds-publisher").rename(tmp_path / "lost")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgresql://ann@127.0.0.1:{server.getsockname()[1]}/hr"
        job.write_text(
            f'[[sources]]\nname = "hr"\ntable = "log"\n[database]\nurl = "{url}"\n'
            f"connect_timeout = 60\n{_SINK}"
        )
        with pytest.raises(FatalError, match="does not fit the ledger"):
            publish(load(job))
        (thread,) = (each for each in threading.enumerate() if each.name == "clients")
        assert thread.daemon  # the end of the process does not wait for it either
        connection, _ = server.accept()
        connection.close()
    thread.join()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        connection.execute("CREATE TABLE event_log (record_id INTEGER PRIMARY KEY)")
    return job(tmp_path, "event_log")


def job(directory: Path, table: str, file: str = "log.db") -> Settings:
    """Settings of a job that reads a table of a SQLite file."""
    path = directory / "job.toml"
    path.write_text(
        f'[[sources]]\nformat = "event-log"\nschema = "s"\ntable = "{table}"\nurl = "sqlite:///{file}"\n'
        f'[tables.usr]\nkey = ["idu"]\n[dispatch]\nto = "files"\npath = "{directory}/out"\n'
    )
    return load(path)


def test_definitions_of_tables_are_read_before_their_first_use(
    settings: Settings, tmp_path: Path
) -> None:
    options = settings.sources[0].database
    assert options is not None
    with keep_connections():
        open_clients(settings)
        with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
            connection.execute("DROP TABLE event_log")
        with Database(options) as database:
            relation = catalogue_of(database).relation(None, "event_log")
    assert relation is not None
    assert list(relation.types) == ["record_id"]


def test_a_missing_table_is_left_to_its_first_use(settings: Settings, tmp_path: Path) -> None:
    assert settings.sources
    with keep_connections():
        open_clients(job(tmp_path, "other"))


def test_a_missing_database_is_reported_when_the_clients_are_needed(tmp_path: Path) -> None:
    with keep_connections():
        clients = ClientOpener(job(tmp_path, "event_log", "missing.db"))
        with pytest.raises(FatalError, match=r"missing\.db does not exist"):
            clients.wait()

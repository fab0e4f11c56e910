"""One value, one text, by every way: whatever the settings of the publisher's own session are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.values.keys import KNOWN, key_differences
from tests.values.servers import Server, own_database, sqlite_server
from tests.values.ways import TypeTable, differences, publish

DECLARED = ("none", "string", "int", "octet")
"""Declarations of the columns; ``./run fuzz --values`` takes all."""


@contextmanager
def start(kind: str, directory: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    if kind == "sqlite":
        yield sqlite_server(directory / "values.db")
        return
    url = request.getfixturevalue({"postgresql": "postgres_url", "mariadb": "mariadb_url"}[kind])
    with own_database(kind, url, "xds_values") as server:
        yield server


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_a_value_has_one_text_by_every_way(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    table = TypeTable.read(kind)
    with start(kind, tmp_path, request) as server:
        outcomes = publish(server, table, tmp_path, DECLARED)
    found = differences(table, outcomes)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_a_key_names_one_object_by_every_way(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with start(kind, tmp_path, request) as server:
        found = key_differences(server, tmp_path)
    assert found.keys() == KNOWN[kind].keys(), found

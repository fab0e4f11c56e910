"""Long form of the table of values: all declarations, and random values."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tests.services import servers
from tests.support.programs import fork_programs
from tests.values.servers import Server, own_database, sqlite_server
from tests.values.ways import DECLARED, WAYS, TypeTable, differences, publish

KINDS = ("sqlite", "postgresql", "mariadb")


def count_differences(seed: str, count: int, only: str | None) -> int:
    """Publishes the values of each database by every way; prints and counts the differences."""
    total = 0
    for kind in KINDS:
        if kind.startswith(only or ""):
            table = TypeTable.read(kind).with_random(random.Random(seed), count)
            with (
                tempfile.TemporaryDirectory() as name,
                _start(kind, Path(name)) as server,
                fork_programs(),
            ):
                found = differences(table, publish(server, table, Path(name), DECLARED))
            cells = len(table.values) * len(DECLARED) * len(WAYS)
            click.echo("\n".join([*found, f"{kind}: {cells:,} combinations, {len(found)} differ"]))
            total += len(found)
    return total


@contextmanager
def _start(kind: str, directory: Path) -> Iterator[Server]:
    if kind == "sqlite":
        yield sqlite_server(directory / "values.db")
        return
    start = servers.postgresql if kind == "postgresql" else servers.mariadb
    with start() as started, own_database(kind, started.url, "xds_values") as server:
        yield server

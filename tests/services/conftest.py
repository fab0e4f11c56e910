"""Real servers for the tests of this directory.

``POSTGRES_URL`` and ``MARIADB_URL`` name servers to use instead; their databases should be empty.
A server that cannot be had skips its tests, saying what stays unproved; with ``CI=true`` that is a
failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from tests.services import servers


def _url(
    variable: str, server: Callable[[], AbstractContextManager[servers.Server]], unproved: str
) -> Iterator[str]:
    given = os.environ.get(variable)
    if given:
        yield given
        return
    try:
        with server() as started:
            yield started.url
    except servers.MissingServerError as missing:
        message = f"not proved: {unproved} ({missing}; or set {variable})"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of a PostgreSQL database."""
    yield from _url("POSTGRES_URL", servers.postgresql, "behaviour with PostgreSQL")


@pytest.fixture(scope="session")
def mariadb_url() -> Iterator[str]:
    """URL of a MariaDB database."""
    yield from _url("MARIADB_URL", servers.mariadb, "behaviour with MariaDB")

"""Extras: packages that only some sources and sinks need.

``pip install 'xds-publisher[EXTRA]'`` installs an extra, and ``xds-publisher[all]`` all of them.
"""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec


class Extra(StrEnum):
    """The extras of ``pyproject.toml`` that add packages to the program."""

    KAFKA = "kafka"
    POSTGRESQL = "postgresql"
    MARIADB = "mariadb"


_PACKAGES = {
    Extra.KAFKA: ("confluent_kafka", "confluent-kafka"),
    Extra.POSTGRESQL: ("psycopg", "psycopg"),
    Extra.MARIADB: ("pymysql", "PyMySQL"),
}
"""Module and Python package of each extra."""


def missing_extra(extra: Extra) -> str | None:
    """Returns a message that says what to install; ``None`` if the extra is installed."""
    module, package = _PACKAGES[extra]
    if find_spec(module) is not None:
        return None
    return f"the Python package {package} is missing: install xds-publisher[{extra}]"

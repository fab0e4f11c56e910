"""Extras: packages that only some sources and sinks need.

``pip install 'xds-publisher[EXTRA]'`` installs an extra, and ``xds-publisher[all]`` all of them.
"""

from __future__ import annotations

_EXTRAS = {
    "confluent_kafka": ("kafka", "confluent-kafka"),
    "psycopg": ("postgresql", "psycopg"),
    "pymysql": ("mariadb", "PyMySQL"),
}
"""Extra and Python package of each module."""


def missing_extra(error: Exception) -> str | None:
    """Returns what to install if the error is a missing module of an extra; ``None`` for other errors."""
    if not isinstance(error, ModuleNotFoundError) or error.name not in _EXTRAS:
        return None
    extra, package = _EXTRAS[error.name]
    return f"the Python package {package} is missing: install xds-publisher[{extra}]"

"""The URL of the database: completion with a driver, description without secrets."""

# ruff: noqa: PLC0415 - plain URLs are read without SQLAlchemy, which loads slowly

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from publisher.errors import SettingProblem, SettingsError
from publisher.redaction import remember

if TYPE_CHECKING:
    from sqlalchemy import URL

DRIVERS: Mapping[str, str] = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "sqlite": "sqlite+pysqlite",
}
"""Kinds of databases with their drivers, whose values have one text in all of the program."""

_PLAIN = re.compile(
    r"(?:postgres|postgresql(?:\+psycopg)?)"
    r"(?P<place>://(?:[\w.-]+(?::(?P<password>[\w.-]+))?@)?[\w.-]+(?::[1-9]\d{0,4})?/[\w.-]+)",
    re.ASCII,
)
"""URLs of PostgreSQL without options, whose parts mean themselves."""


def complete(url: str | None, variable: str | None) -> URL:
    """Completes the URL, or that of the environment ``variable``, with driver and absolute path.

    Raises ``SettingsError``, which never shows the URL, because it may contain a password.
    """
    from sqlalchemy.exc import ArgumentError

    text = url if url is not None else _from_environment(variable)
    try:
        parsed = _parse(text)
        remember(secrets_of(parsed))
    except (ArgumentError, ValueError):
        remember([text])
        raise SettingsError(
            [_url_problem("is not a URL: write postgresql://USER@HOST/DATABASE")]
        ) from None
    kind = parsed.get_backend_name()
    if kind not in DRIVERS:
        matches = get_close_matches(kind, DRIVERS, 1, 0.6)
        advice = f"write {matches[0]}" if matches else "use postgresql, mariadb or sqlite"
        raise SettingsError([_url_problem(f"{kind} is not a known kind of database: {advice}")])
    if parsed.drivername not in (kind, DRIVERS[kind]):
        advice = f"{parsed.drivername} names another driver: write {kind}, without a driver"
        raise SettingsError([_url_problem(advice)])
    return _with_file(parsed) if kind == "sqlite" else parsed.set(drivername=DRIVERS[kind])


@lru_cache(maxsize=16)
def _parse(text: str) -> URL:
    """Parses a URL, which each poll needs several times."""
    from sqlalchemy import make_url

    return make_url(text)


def complete_text(url: str | None, variable: str | None) -> str:
    """Completes the URL like ``complete``, and returns it as text with its password."""
    text = url if url is not None else _from_environment(variable)
    plain = _PLAIN.fullmatch(text)
    if plain is None:
        return complete(url, variable).render_as_string(hide_password=False)
    remember(filter(None, [plain["password"]]))
    return f"{DRIVERS['postgresql']}{plain['place']}"


def resolve_path(url: str | None, directory: Path) -> str | None:
    """Makes the path of a SQLite URL relative to ``directory``."""
    scheme, slashes, path = (url or "").partition(":///")
    if not slashes or not scheme.startswith("sqlite") or path in ("", ":memory:"):
        return url
    return f"{scheme}:///{directory / path}"


def _from_environment(variable: str | None) -> str:
    if variable is None:
        problem = SettingProblem(("database",), "no database is named: set url or url_env")
        raise SettingsError([problem])
    text = os.environ.get(variable)
    if not text:
        advice = f"the environment variable {variable} is not set: set it to the URL"
        raise SettingsError([SettingProblem(("database", "url_env"), advice)])
    return text


def _with_file(url: URL) -> URL:
    """Makes the path of a SQLite URL absolute, because tasks may run in other directories."""
    if not url.database or url.database == ":memory:":
        advice = "names no SQLite file: write sqlite:///FILE or sqlite:////PATH/FILE"
        raise SettingsError([_url_problem(advice)])
    return url.set(database=str(Path(url.database).absolute()))


def _url_problem(text: str) -> SettingProblem:
    return SettingProblem(("database", "url"), text)


def secrets_of(url: URL) -> list[str]:
    """Returns the secrets of a URL: the password, and passwords among its options."""
    passwords = [
        url.password,
        *(url.query[name] for name in url.query if "pass" in name.casefold()),
    ]
    values = [
        value for item in passwords for value in ((item,) if isinstance(item, str) else item or ())
    ]
    return [value for value in values if value]


def describe(url: URL) -> str:
    """Describes a database without user and password."""
    if url.get_backend_name() == "sqlite":
        return f"SQLite file {url.database}"
    host = url.host or url.query.get("host") or url.query.get("unix_socket") or "localhost"
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()} database {url.database or '(default)'} on {host}{port}"

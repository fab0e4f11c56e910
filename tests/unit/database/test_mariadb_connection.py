"""Connections to MariaDB: as PyMySQL makes them, with less work."""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection

from publisher.database.mariadb_connection import MariadbConnection


def settings_of(tls: Any) -> tuple[object, ...]:
    return tls.verify_mode, tls.check_hostname, tls.options, tls.verify_flags


def context(kind: Any, **options: object) -> Any:
    return kind(defer_connect=True, **options).ctx


def test_connections_share_the_default_tls_settings_which_are_those_of_pymysql() -> None:
    first, second = (context(MariadbConnection) for _ in range(2))
    assert first is second
    assert settings_of(first) == settings_of(context(Connection))


def test_options_for_tls_are_those_of_one_connection() -> None:
    options = {"ssl_verify_cert": True, "ssl_verify_identity": True}
    strict = context(MariadbConnection, **options)
    assert strict is not context(MariadbConnection, **options)
    assert settings_of(strict) == settings_of(context(Connection, **options))
    assert settings_of(strict)[:2] != settings_of(context(MariadbConnection))[:2]

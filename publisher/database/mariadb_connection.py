"""Connections to MariaDB and MySQL that share the TLS settings of the process."""

# ruff: noqa: SLF001 - PyMySQL has no public function that builds the settings and keeps them optional

from __future__ import annotations

import ssl
from functools import cache
from typing import Any

from pymysql.connections import Connection

_PYMYSQL: Any = Connection


class MariadbConnection(Connection):
    """Reads the certificates of the system once, where PyMySQL reads them for each connection."""

    def _create_ssl_ctx(self, options: dict[str, Any] | ssl.SSLContext) -> ssl.SSLContext:
        context: ssl.SSLContext = _PYMYSQL._create_ssl_ctx(self, options) if options else _default()
        return context


@cache
def _default() -> ssl.SSLContext:
    """Builds the settings of connections whose URL says nothing about TLS."""
    context: ssl.SSLContext = _PYMYSQL._create_ssl_ctx(None, {})
    return context

"""Classifies failed statements: lost connections, bad data, missing permissions."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)

from publisher.redaction import hides_values

# SQLSTATE: serialization failure, deadlock, lock wait, shutdown, crash, starting up, too many connections
_TRANSIENT_STATES = frozenset({"40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300"})
# MySQL and MariaDB: too many connections, shutdown, lock wait, deadlock
_TRANSIENT_CODES = frozenset({1040, 1053, 1205, 1213})
_NO_RIGHT_CODES = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1698})
# unknown database, table, column; a view that is no longer valid
_STATEMENT_CODES = frozenset({1046, 1049, 1054, 1064, 1146, 1356})
_NO_RIGHT_STATE = "42501"
_TOO_LONG = "54000"
"""SQLSTATE of a value longer than PostgreSQL's limit of 1 GB, as a column of many rows may be."""
_REFUSAL = re.compile(
    "authentication failed|no pg_hba.conf entry|no password supplied|does not exist"
).search

_NO_DATABASE = re.compile('database "[^"]*" does not exist|permission denied for database').search

_UNKNOWN_HOST = re.compile(
    "resolve host|could not translate host name|Name or service not known|No address associated"
    "|name resolution|nodename nor servname|getaddrinfo"
).search


_LOCKED = re.compile(
    "database (?:table )?is locked|lock wait|lock timeout|obtain lock|deadlock|serialize access",
    re.IGNORECASE,
).search
_FULL = re.compile(
    "query_wait_timeout|too many (?:connections|clients)|connection slots|no more connections allowed",
    re.IGNORECASE,
).search


def busy_cause(text: str) -> tuple[str, str] | None:
    """Returns why a database that can be reached does not answer, and advice; ``None`` for other messages."""
    if _LOCKED(text):
        return (
            "is locked",
            "another session holds a lock for long: end its transaction, then try again",
        )
    if _FULL(text):
        advice = (
            "raise the limit of the server or of the pooler before it: a run needs three and more"
        )
        return "has no free connection", advice
    return None


def is_unreadable_wal(text: str, path: str) -> bool:
    """Recognises SQLite's message about a database in WAL mode, in a place without write right."""
    if not ("unable to open database file" in text or "write a readonly database" in text):
        return False
    try:
        with Path(path).open("rb") as file:
            return file.read(20)[18:] == b"\x02\x02"  # versions of the file format: 2 is WAL
    except OSError:
        return False


def is_unknown_host(text: str) -> bool:
    """Recognises a driver's message about a host without address."""
    return bool(_UNKNOWN_HOST(text))


def is_wrong_option(error: DBAPIError) -> bool:
    """Recognises an option that PostgreSQL's library refuses before it connects."""
    return isinstance(error, ProgrammingError) and "connection option" in str(error.orig)


def is_lost(error: DBAPIError) -> bool:
    """Recognises a lost connection, and failures that a new connection may avoid."""
    if error.connection_invalidated or _state(error) in _TRANSIENT_STATES:
        return True
    return _code(error) in _TRANSIENT_CODES or "database is locked" in str(error.orig)


def is_refusal(error: DBAPIError) -> bool:
    """Recognises a server that refuses this user or does not have this database."""
    # PostgreSQL's library reports no code, only a message in the server's language
    return _code(error) in _NO_RIGHT_CODES | {1049} or bool(_REFUSAL(str(error.orig)))


def refusal_advice(error: DBAPIError) -> str:
    """Advice on a refused login: the part of the URL or of the server to check."""
    text = str(error.orig)
    if _code(error) in {1044, 1049} or _NO_DATABASE(text):
        return "check the name of the database in its URL, and this user's permissions for it"
    if "pg_hba.conf" in text:
        return "allow this user and this machine in the server's pg_hba.conf"
    return "check user and password in its URL"


def is_data_error(error: Exception) -> bool:
    """Recognises errors of single rows or keys, so that other rows or keys can be read."""
    if not isinstance(error, DBAPIError):
        return isinstance(error, (ValueError, OverflowError))  # a driver's conversion
    if is_lost(error) or is_missing_permission(error):
        return False
    if _state(error) == _TOO_LONG:
        return True
    if isinstance(error, OperationalError):
        # MySQL and MariaDB report most data errors this way, and SQLite damaged text
        return _code(error) is not None or "Could not decode" in str(error.orig)
    return isinstance(
        error,
        (
            DataError,
            IntegrityError,
            InterfaceError,
            InternalError,
            NotSupportedError,
            ProgrammingError,
        ),
    )


def is_missing_permission(error: DBAPIError) -> bool:
    """Recognises a missing permission."""
    return _state(error) == _NO_RIGHT_STATE or _code(error) in _NO_RIGHT_CODES


def concerns_statement(error: Exception) -> bool:
    """Recognises data errors of the whole statement, which would occur in a smaller one, too."""
    if not isinstance(error, DBAPIError):
        return False
    return _state(error).startswith("42") or _code(error) in _STATEMENT_CODES


def message_of(error: Exception) -> str:
    """Returns the driver's message in one line, without statement and parameters."""
    orig = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if hides_values() and is_data_error(error):
        return f"{type(orig).__name__}; masking hides its message"
    text = str(orig.args[1]) if isinstance(error, DBAPIError) and _code(error) else str(orig)
    text = re.sub(r"\nLINE \d+: .*(?:\n *\^)?", "", text)  # a part of the statement
    text = re.sub(r"\s+", " ", text).strip() or type(orig).__name__
    # PostgreSQL's library repeats host, port and user before the server's message
    before, fatal, message = text.rpartition("FATAL: ")
    return message.strip() if fatal and before.startswith("connection failed") else text


def _state(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


def _code(error: DBAPIError) -> int | None:
    """The error number of MySQL and MariaDB."""
    args: tuple[object, ...] = getattr(error.orig, "args", ())
    code = args[0] if len(args) > 1 else None
    return code if isinstance(code, int) else None

"""Statements of the user's own, run as they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher.database.connection import Database
from publisher.errors import FatalError

_QUOTED = re.compile(r"""(?:\s*\bat or)?\s*\bnear (?:".*?"(?:: )?|'.*)""", re.DOTALL)
"""Where SQL that is no SQL goes wrong, in the words of PostgreSQL, SQLite and MariaDB."""


def run_statements(
    database: Database, statements: Sequence[str], check_lease: Callable[[], None], place: str
) -> None:
    """Runs statements, each in a transaction of its own.

    ``check_lease`` is called before each and raises where another instance has taken over; ``place``
    is the name of the setting that has them.

    Raises:
        FatalError: One fails; those before it have been done.
        UnreachableError: The database does not answer.
    """
    for number, statement in enumerate(statements, 1):

        def work(connection: Connection, statement: str = statement) -> None:
            check_lease()
            if connection.dialect.paramstyle in ("format", "pyformat"):
                statement = statement.replace("%", "%%")
            with connection.begin():
                connection.exec_driver_sql(statement)

        try:
            database.run(work)
        except DBAPIError as error:
            raise FatalError(
                f"{place}: statement {number} failed on {database.name}: "
                f"{_words(database, error)}: mend it, then start again"
            ) from None  # its text would show with --debug


def _words(database: Database, error: DBAPIError) -> str:
    """What the database says, without parts of the statement, which may hold a secret."""
    diagnosis = getattr(error.orig, "diag", None)  # PostgreSQL repeats the line beside its message
    message = getattr(diagnosis, "message_primary", None)
    text = database.scrubbed(Exception(message) if message else error)
    return _QUOTED.sub("", text)

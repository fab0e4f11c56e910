"""Runs the user's post-polling statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher.database.connection import Database
from publisher.errors import FatalError

_QUOTED = re.compile(r"""(?:\s*\bat or)?\s*\bnear (?:".*?"(?:: )?|'.*)""", re.DOTALL)
"""Part of the statement that PostgreSQL, SQLite and MariaDB quote in the message of a syntax error."""


def run_post_polling(
    database: Database, statements: Sequence[str], check_lease: Callable[[], None]
) -> None:
    """Runs ``post_polling_statements``, each in its own transaction.

    ``check_lease`` is called before each and raises if another instance has taken over.

    Raises:
        FatalError: A statement fails; those before it are committed.
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
                f"post_polling_statements: statement {number} failed on {database.name}: "
                f"{_message_of(database, error)}: fix it, then start again"
            ) from None  # --debug would show the statement


def _message_of(database: Database, error: DBAPIError) -> str:
    """Returns the database's message without parts of the statement, which may contain a secret."""
    diagnosis = getattr(error.orig, "diag", None)  # PostgreSQL's whole error repeats the line
    message = getattr(diagnosis, "message_primary", None)
    text = database.redact(Exception(message) if message else error)
    return _QUOTED.sub("", text)

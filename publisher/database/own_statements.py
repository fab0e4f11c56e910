"""Statements of the user's own, run as they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher.database.connection import Database
from publisher.errors import FatalError


def run_statements(
    database: Database, statements: Sequence[str], still_mine: Callable[[], None], place: str
) -> None:
    """Runs statements, each in a transaction of its own.

    ``still_mine`` is called before each and raises where another instance has taken over; ``place``
    is the name of the setting that has them.

    Raises:
        FatalError: One fails; those before it have been done.
        UnreachableError: The database does not answer.
    """
    for number, statement in enumerate(statements, 1):

        def work(connection: Connection, statement: str = statement) -> None:
            still_mine()
            if connection.dialect.paramstyle in ("format", "pyformat"):
                statement = statement.replace("%", "%%")
            with connection.begin():
                connection.exec_driver_sql(statement)

        try:
            database.run(work)
        except DBAPIError as error:
            # without its text, which may hold a secret
            raise FatalError(
                f"{place}: statement {number} failed on {database.name}: "
                f"{database.scrubbed(error)}: mend it, then start again"
            ) from error

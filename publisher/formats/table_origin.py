"""Checks that a source still reads the table or database that its state describes."""

from __future__ import annotations

from publisher.database.identity import TableOrigin
from publisher.errors import FatalError

FILES = TableOrigin(database="the files")
"""The origin of tables that are read from files."""


def check_origin(
    place: str, before: TableOrigin, now: TableOrigin, *, accepts: bool, otherwise: str
) -> tuple[str, ...]:
    """Refuses another database, unless the operator ``accepts`` it; returns notes for the run.

    ``place`` names source and table, ``otherwise`` what another name of the source does.

    Raises:
        FatalError: The table is in another database, or was created again.
    """
    if before.is_same(now):
        return ()
    why = before.difference(now)
    if accepts:
        accepted = f"was accepted as the table of {before.database} that earlier runs have read"
        return (f"{place} of {now.database} {accepted}: {why}",)
    raise FatalError(
        f"{place} of {now.database} is not the table of {before.database} that earlier runs have read: {why}."
        " Nothing was published: restore the url and the table of the source; or, if this table has the same"
        " rows (a replica, a restored dump, a new server), run xds-publisher publish --accept-database once;"
        f" or give the source another name, {otherwise}"
    )

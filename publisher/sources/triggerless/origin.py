"""The origin of a compared table: the database that its state describes, and no other.

Compared with a table of another database, known rows would be published as deleted and its rows as new.
The identity of the database decides where it can (``database.identity``); where it proves nothing, as
of a copied file, at least half of the known rows must be there with their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from publisher.database import Database, Relation
from publisher.database.identity import Verdict, compare, difference, place_of
from publisher.errors import FatalError
from publisher.sources.triggerless.compare import Counts

_RENAME = (
    "give the source another name, so that it starts over by startup_option: rows that are gone since"
    " are not published as deleted then"
)


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """The database of a compared table; files have none."""

    identity: str | None
    """As ``place_of`` reads it."""
    database: str
    """The database as messages name it."""

    @classmethod
    def read(cls, database: Database, relation: Relation) -> Self:
        """The origin of a table now.  Raises ``UnreachableError``."""
        return cls(place_of(database, relation), database.name)

    @classmethod
    def of_state(cls, table: Mapping[str, Any]) -> Self | None:
        """The origin that a state has of a table."""
        return cls(**table["origin"]) if table["origin"] is not None else None


def plain_origin(origin: TableOrigin | None) -> dict[str, str | None] | None:
    """An origin as a state keeps it."""
    return None if origin is None else asdict(origin)


@dataclass(frozen=True, slots=True)
class OriginCheck:
    """The comparison of the origin in a state with the one of today."""

    source: str
    table: str
    before: TableOrigin | None
    now: TableOrigin | None

    def needs_rows(self, *, by_rows: bool) -> bool:
        """Whether rows must prove that it is the same table; with ``by_rows`` in any other database.

        Raises ``FatalError`` where the database is certainly another one.
        """
        before, now = self.before, self.now
        if before == now:
            return False
        if (
            before is None or now is None
        ):  # files took the place of a database, or the other way round
            return True
        verdict = compare(before.identity, now.identity)
        if verdict is Verdict.OTHER and not by_rows:
            why = difference(before.identity, now.identity)
            raise self._refusal(
                f"{why}. Nothing was published: restore the url of the source; or, where the table was"
                " copied or moved there with its rows (a restored dump, a new server), run xds-publisher"
                f" publish --by-rows once; or {_RENAME}"
            )
        return verdict is not Verdict.SAME

    def verify_rows(self, counts: Counts) -> None:
        """Raises ``FatalError`` unless at least half of the known rows have their values."""
        known = counts.known
        if known > 2 * counts.alike:
            raise self._refusal(
                f"of {known:,} known row(s) {counts.alike:,} are in it with the same values. Nothing was"
                f" published: restore the url of the source; or {_RENAME}"
            )

    def _refusal(self, why: str) -> FatalError:
        now = self.now.database if self.now is not None else "the files"
        before = self.before.database if self.before is not None else "the files"
        return FatalError(
            f"source {self.source}: table {self.table} of {now} is not the table of {before} that earlier"
            f" runs have compared: {why}"
        )

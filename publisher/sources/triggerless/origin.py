"""The origin of a compared table: the database that its state describes.

A comparison with a table of another database would publish the known rows as deleted and all rows as new.
Where possible, the identity of the database decides (``database.identity``).  If it proves nothing, for
example for a copied file, at least half of the known rows must still have their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from publisher.database.catalogue import Relation
from publisher.database.connection import Database
from publisher.database.identity import Verdict, compare, difference, place_of
from publisher.errors import FatalError
from publisher.sources.triggerless.compare import ComparisonCounts

_RENAME = (
    "give the source another name, so that it starts over by startup_option; rows deleted since then"
    " are not published"
)


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """The database of a compared table; files have none."""

    identity: str | None
    """Identity of the database, see ``place_of``."""
    database: str
    """Name of the database in messages."""

    @classmethod
    def read(cls, database: Database, relation: Relation) -> Self:
        """Reads the current origin of a table.  Raises ``UnreachableError``."""
        return cls(place_of(database, relation), database.name)

    @classmethod
    def of_state(cls, table: Mapping[str, Any]) -> Self | None:
        """The origin in a table's description in a state."""
        return cls(**table["origin"]) if table["origin"] is not None else None


def plain_origin(origin: TableOrigin | None) -> dict[str, str | None] | None:
    """The plain values of an origin, as a state stores them."""
    return None if origin is None else asdict(origin)


@dataclass(frozen=True, slots=True)
class OriginCheck:
    """The comparison of an origin in a state with the current one."""

    source: str
    table: str
    before: TableOrigin | None
    now: TableOrigin | None

    def needs_rows(self, *, by_rows: bool) -> bool:
        """Tests whether rows must prove that the table is the same; ``by_rows`` permits any database.

        Raises ``FatalError`` if the database is certainly another one.
        """
        before, now = self.before, self.now
        if before == now:
            return False
        if before is None or now is None:  # files replaced a database, or a database files
            return True
        verdict = compare(before.identity, now.identity)
        if verdict is Verdict.OTHER and not by_rows:
            why = difference(before.identity, now.identity)
            raise self._refusal(
                f"{why}. Nothing was published: restore the url of the source; or, if the table was"
                " copied or moved there with its rows (a restored dump, a new server), run xds-publisher"
                f" publish --by-rows once; or {_RENAME}"
            )
        return verdict is not Verdict.SAME

    def verify_rows(self, counts: ComparisonCounts) -> None:
        """Raises ``FatalError`` unless at least half of the known rows still have their values."""
        known = counts.known
        if known > 2 * counts.alike:
            raise self._refusal(
                f"only {counts.alike:,} of {known:,} known row(s) have the same values in this table. Nothing"
                f" was published: restore the url of the source; or {_RENAME}"
            )

    def _refusal(self, why: str) -> FatalError:
        now = self.now.database if self.now is not None else "the files"
        before = self.before.database if self.before is not None else "the files"
        return FatalError(
            f"source {self.source}: table {self.table} of {now} is not the table of {before} that earlier"
            f" runs have compared: {why}"
        )

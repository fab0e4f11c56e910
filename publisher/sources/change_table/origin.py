"""The check that a live change table is the one in which a mark was left.

In another table, rows at or below the mark would be skipped in silence.  The identity of database and
table decides if it can (``database.identity``); if it proves nothing, because a restored dump has another
one as well, the rows at the mark must still be there with their content.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from publisher.database.identity import Verdict, compare, difference, digest_of
from publisher.database.ordered_ranges import Span
from publisher.errors import FatalError
from publisher.sources.change_table.carry_over import FORM, Mark, MarkOrigin, RowDigests
from publisher.sources.change_table.change_seq import NUMBER_DIGITS, TIME_DIGITS

MAX_ROWS = 8
"""Number of rows that a mark remembers."""
_GO_ON = (
    " or, where it is a copy with the rows that were read (a restored dump), run xds-publisher publish"
    " --by-rows once, which continues after them;"
)


@dataclass(frozen=True, slots=True)
class CurrentTable:
    """The table that a source names now; ``source`` may be empty if messages need not name it."""

    source: str
    table: str
    database: str
    identity: str | None

    def verify(self, mark: Mark, *, by_rows: bool = False) -> Verdict:
        """Compares identities; a mark that skips nothing fits every table.

        With ``by_rows`` a difference proves nothing.

        Raises:
            FatalError: The table is certainly another one.
        """
        if mark.change_seq is None and not mark.others:
            return Verdict.SAME
        verdict = compare(mark.origin.identity, self.identity)
        if verdict is Verdict.OTHER and by_rows and mark.change_seq is not None:
            return Verdict.UNKNOWN
        if verdict is Verdict.OTHER:
            why = difference(mark.origin.identity, self.identity)
            raise self._refusal(mark, why, _GO_ON)
        return verdict

    def verify_rows(self, mark: Mark, rows: Iterable[pa.RecordBatch], headers: list[str]) -> None:
        """Looks for the rows that the mark remembers among ``rows``, those at its change_seq now.

        Raises:
            FatalError: One of them is missing.
        """
        present = {row for batch in rows for row in digest_rows(batch, headers)}
        whole, heads = {row.whole for row in present}, {row.headers for row in present}
        same_columns = {row.columns for row in present} == {row.columns for row in mark.origin.rows}
        for row in mark.origin.rows:
            if row.whole not in whole and (same_columns or row.headers not in heads):
                raise self._refusal(mark, "it lacks a row that was read with that change_seq")
        if not mark.origin.rows:
            raise self._refusal(mark, "nothing shows that it is the same one")

    def origin(self, mark: Mark, before: Mark, rows: Iterable[RowDigests]) -> MarkOrigin:
        """The origin to store in ``mark``, with its rows, or those of the mark before if they are gone."""
        digests = tuple(sorted(set(rows))[:MAX_ROWS])
        if not digests and mark.change_seq == before.change_seq:
            digests = before.origin.rows
        return MarkOrigin(self.identity or before.origin.identity, self.database, digests)

    def _refusal(self, mark: Mark, why: str, go_on: str = "") -> FatalError:
        source = f"source {self.source}: " if self.source else ""
        read = f" of {mark.origin.database}" if mark.origin.database else ""
        upto = f" up to change_seq {mark.change_seq}" if mark.change_seq is not None else ""
        return FatalError(
            f"{source}table {self.table} of {self.database} is not the table{read} that earlier runs have"
            f" read{upto}: {why}. Nothing was read, because rows up to there would be skipped: restore the"
            f" url and the table of the source;{go_on} or give the source another name, which publishes"
            " all rows of this table, those that were published before once more"
        )


def digest_rows(batch: pa.RecordBatch, headers: list[str]) -> list[RowDigests]:
    """Digests rows: their column names, their header columns, all columns."""
    columns = digest_of(sorted(batch.schema.names))
    return [
        RowDigests(
            columns,
            digest_of([(name, row[name]) for name in sorted(headers)]),
            digest_of(sorted(row.items())),
        )
        for row in batch.to_pylist()
    ]


def span_at(column: str, change_seq: str) -> Span:
    """The rows of one change_seq."""
    number = int(change_seq)
    before = f"{number - 1:0{TIME_DIGITS + NUMBER_DIGITS}d}" if number else None
    return Span(column, FORM, before, change_seq, others=False)

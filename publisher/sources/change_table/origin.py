"""Checks that a live change table is the table in which a mark was left.

In another table, rows at or below the mark would be skipped silently.  Where possible, the identity of
database and table decides (``database.identity``).  If it proves nothing, or the user runs ``--by-rows``
because of a restored dump, the table must still contain the rows at the mark, unchanged.
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
"""Maximum number of rows that a mark remembers."""
_CONTINUE = (
    " or, if it is a copy that contains the rows that were read (a restored dump), run xds-publisher publish"
    " --by-rows once, which continues after these rows;"
)


@dataclass(frozen=True, slots=True)
class CurrentTable:
    """The table that a source names now; ``source`` may be empty if messages need not name it."""

    source: str
    table: str
    database: str
    identity: str | None

    def verify(self, mark: Mark, *, by_rows: bool = False) -> Verdict:
        """Compares the identities of the two tables; a mark that skips no rows fits every table.

        With ``by_rows``, different identities prove nothing.

        Raises:
            FatalError: The table is certainly not the table of the mark.
        """
        if mark.change_seq is None and not mark.others:
            return Verdict.SAME
        verdict = compare(mark.origin.identity, self.identity)
        if verdict is Verdict.OTHER and by_rows and mark.change_seq is not None:
            return Verdict.UNKNOWN
        if verdict is Verdict.OTHER:
            why = difference(mark.origin.identity, self.identity)
            raise self._refusal(mark, why, _CONTINUE)
        return verdict

    def verify_rows(self, mark: Mark, rows: Iterable[pa.RecordBatch], headers: list[str]) -> None:
        """Looks for the rows that the mark remembers among ``rows``, the present rows at its change_seq.

        Raises:
            FatalError: A remembered row is missing, or the mark remembers none.
        """
        present = {row for batch in rows for row in digest_rows(batch, headers)}
        whole, heads = {row.whole for row in present}, {row.headers for row in present}
        same_columns = {row.columns for row in present} == {row.columns for row in mark.origin.rows}
        for row in mark.origin.rows:
            if row.whole not in whole and (same_columns or row.headers not in heads):
                raise self._refusal(mark, "it lacks a row that was read with that change_seq")
        if not mark.origin.rows:
            raise self._refusal(mark, "no remembered row shows that it is the same table")

    def origin(self, mark: Mark, before: Mark, rows: Iterable[RowDigests]) -> MarkOrigin:
        """The origin to store in ``mark``; it remembers ``rows``, the rows at its change_seq.

        If these are gone, it remembers the rows of ``before``, the previous mark.
        """
        digests = tuple(sorted(set(rows))[:MAX_ROWS])
        if not digests and mark.change_seq == before.change_seq:
            digests = before.origin.rows
        return MarkOrigin(self.identity or before.origin.identity, self.database, digests)

    def _refusal(self, mark: Mark, why: str, remedy: str = "") -> FatalError:
        source = f"source {self.source}: " if self.source else ""
        read = f" of {mark.origin.database}" if mark.origin.database else ""
        upto = f" up to change_seq {mark.change_seq}" if mark.change_seq is not None else ""
        return FatalError(
            f"{source}table {self.table} of {self.database} is not the table{read} that earlier runs have"
            f" read{upto}: {why}. Nothing was read, because rows up to this change_seq would be skipped:"
            f" restore the url and the table of the source;{remedy} or give the source another name, which"
            " publishes all rows of this table, including those that were published before"
        )


def digest_rows(batch: pa.RecordBatch, headers: list[str]) -> list[RowDigests]:
    """Digests each row: its column names, its header columns, all its columns."""
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

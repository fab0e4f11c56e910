"""The file of a full extract of zero rows whose records have no LEN: two bytes, FFFF."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from publisher.model.change import Outcome, Reason
from publisher.sources.columns.record_batches import Place, as_json, batch, tally
from publisher.sources.linkexpress.file_probe import NO_ROWS_FILE


def no_rows(place: Place, rank: int, table: str) -> Iterator[pa.RecordBatch]:
    """The one record of such a file, and the tally."""
    yield batch(
        1,
        source=place.source,
        lane=place.split % place.lanes,
        part=place.name,
        rank=rank,
        high=0,
        low=0,
        ordinal=0,
        split=place.split,
        row=0,
        records=1,
        outcome=Outcome.IGNORED.value,
        reason=str(Reason.EMPTY_TABLE),
        detail=f"table {table} is empty: a full extract of zero rows",
    )
    yield tally(place, 1)


def no_rows_raw() -> str:
    """The record as JSON text."""
    return as_json({"offset": 0, "length": len(NO_ROWS_FILE), "hex": NO_ROWS_FILE.hex()})

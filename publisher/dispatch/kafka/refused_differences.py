"""Refuses differences from a state that consumers never got, in runs with minimal modifies.

A run is planned as if every document arrived, except large ones: after a document with more bytes than
``Manifest.document_limit``, those of its object are planned in full.  After any other refused document, a
``<modify>`` may name only what differs from it, so that consumers would get a wrong object unnoticed.  It is
refused, too, until a ``<delete>`` ends the doubt; all other operations are complete.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from publisher.dispatch.kafka.records import SIZE_COLUMNS, LaneDocuments
from publisher.dispatch.refusals import DispatchRecord, Refusal, RefusalReason

_DETAIL = (
    "the document has only differences from an earlier one of its object that the sink refused: correct the "
    "cause of that refusal, then retry the records of both"
)


def refuse_differences(
    record: DispatchRecord, lanes: Sequence[LaneDocuments], limit: int | None
) -> DispatchRecord:
    """Adds the documents that depend on refused ones to a record; ``limit`` is that of the manifest."""
    refusals = list(record.refusals)
    for lane in lanes:
        refused = record.of_lane(lane.lane)
        if refused:
            refusals += _later_differences(lane, refused, sys.maxsize if limit is None else limit)
    refusals.sort(key=lambda refusal: (refusal.lane, refusal.document))
    return replace(record, refusals=tuple(refusals))


def _later_differences(
    lane: LaneDocuments, refused: Collection[int], limit: int
) -> Iterator[Refusal]:
    """Yields the documents of one lane that depend on its refused ones."""
    by_source = "source" in lane.template.fields
    doubted: set[tuple[int | None, str]] = set()
    for first, rows in lane.index(SIZE_COLUMNS, min(refused)):
        columns = ("source", "operation", "length", "association", "new_association")
        entries = zip(*(rows.column(name).to_pylist() for name in columns), strict=True)
        for place, (number, kinds, length, old, new) in enumerate(entries):
            source = number if by_source else None
            document, names = first + place, {(source, name) for name in (old, new) if name}
            if document in refused:
                doubted = doubted - names if length > limit else doubted | names
            elif (source, old) in doubted:
                operations = kinds.split()
                if "delete" not in operations and "modify" in operations:
                    doubted |= names
                    row = rows.slice(place, 1)
                    yield lane.refusal(document, row, RefusalReason.AFTER_REFUSED, _DETAIL)
                    continue
                doubted.discard((source, old))
                if "delete" not in operations:
                    doubted.add((source, new or old))

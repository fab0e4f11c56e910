"""Plans one by one, as tests compare them: documents, and the outcomes of changes without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.change import Object, Outcome, Position, Reason
from publisher.model.document_schema import DOCUMENT_SCHEMA
from publisher.model.outcomes import NUMBERS, REASONS, Outcomes


class Decision(NamedTuple):
    """See ``Outcomes``."""

    row: int
    outcome: Outcome
    reason: Reason | None = None
    by: int = -1
    detail: str | None = None
    raw: str | None = None


class Document(NamedTuple):
    """See ``DOCUMENT_SCHEMA``."""

    object: Object
    position: Position
    poll: int
    operation: str
    association: str
    event_id: str
    text: str
    rows: tuple[int, ...]
    records: str
    new_association: str | None = None


_PLAIN = [name for name in Document._fields if name not in {"object", "position", "rows"}]


def each_document(documents: pa.RecordBatch) -> Iterator[Document]:
    """Documents one by one."""
    for row in documents.to_pylist():
        yield Document(
            object=Object(row["schema"], row["table"], row["key"]),
            position=Position(row["part"], row["high"], row["low"], row["ordinal"]),
            rows=tuple(row["rows"]),
            **{name: row[name] for name in _PLAIN},
        )


def batch_of_documents(documents: Sequence[Document]) -> pa.RecordBatch:
    """Documents as a lane writes them, all of rank 0."""
    rows = [
        {**each._asdict(), **each.object._asdict(), **each.position._asdict(), "rank": 0}
        for each in documents
    ]
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in DOCUMENT_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=DOCUMENT_SCHEMA)


def decisions_of(outcomes: Outcomes) -> list[Decision]:
    """The outcomes one by one."""
    columns = [column.tolist() for column in outcomes[:4]]
    return [
        Decision(
            row, Outcome(outcome), REASONS[reason - 1], by, *outcomes.texts.get(row, (None, None))
        )
        for row, outcome, reason, by in zip(*columns, strict=True)
    ]


def outcomes_of(decisions: Sequence[Decision]) -> Outcomes:
    """Outcomes as a lane writes them."""
    rows, outcomes, by = (
        np.array([each[place] for each in decisions], np.int64) for place in (0, 1, 3)
    )
    reasons = np.array([NUMBERS[each.reason] if each.reason else 0 for each in decisions], np.int64)
    texts = {each.row: (each.detail, each.raw) for each in decisions if each.detail or each.raw}
    return Outcomes(rows, outcomes, reasons, by, texts)

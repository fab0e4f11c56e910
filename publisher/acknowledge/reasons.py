"""Reasons for the statuses W, E and F, for the user's reason table and for ``retry``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from publisher.acknowledge.status_letters import (
    BIT_OF,
    NONE,
    STATUS_OF_BIT,
    LaneLetters,
    RefusedDocuments,
    status_windows,
)
from publisher.model.change import Reason, Status
from publisher.model.reason_texts import REASON_TEXTS


class StatusReason(NamedTuple):
    """The reason for a record's status; a superseded record has the reason of the one that superseded it."""

    record_id: int | None
    status: Status
    reason: str
    detail: str
    schema: str | None
    table: str | None
    fingerprint: int | None = None
    """Fingerprint of the record's row."""


_COLUMNS = ["high", "schema", "table", "reason", "document", "detail", "raw"]


def status_reasons(
    lanes: list[LaneLetters],
    refused: RefusedDocuments,
    statuses: Iterable[Status] = (Status.WARNING, Status.ERROR, Status.FATAL),
) -> Iterator[StatusReason]:
    """Yields the reasons of the records with these statuses, lane by lane."""
    bits = sum(BIT_OF[status] for status in statuses)
    for lane in lanes:
        yield from _reasons_of_lane(lane, refused, bits)


def contradiction_reasons(lanes: list[LaneLetters]) -> Iterator[StatusReason]:
    """Yields the reasons of ids that got E because one of their records was published and another is held."""
    for window in status_windows(lanes):
        for number in window.contradictory.tolist():
            detail = (
                f"record_id {number} appears in several rows; one was published, another is held: "
                "give each row its own record_id, and status N to the row that was held"
            )
            yield StatusReason(number, Status.ERROR, Reason.DOUBLE_RECORD, detail, None, None)


def rejected_ids(lanes: list[LaneLetters]) -> Iterator[tuple[int | None, int]]:
    """Yields ids and row fingerprints of records whose id is not a positive number; all are rejected.

    The id is ``None`` if it is not an integer at all.
    """
    for lane in lanes:
        rows = np.flatnonzero((lane.bits == BIT_OF[Status.ERROR]) & ~lane.has_id)
        for row, record in lane.read(rows, ["raw"]):
            yield written_id(record["raw"]), int(lane.fingerprints[row])


def _reasons_of_lane(
    lane: LaneLetters, refused: RefusedDocuments, selected_bits: int
) -> Iterator[StatusReason]:
    is_selected = (lane.bits & selected_bits) != NONE
    is_superseded = is_selected[lane.superseded] & (lane.by >= 0)
    by = lane.by[is_superseded]
    causes = dict(lane.read(np.unique(by), ["high", "reason", "document", "detail"]))
    superseders = dict(zip(lane.superseded[is_superseded].tolist(), by.tolist(), strict=True))
    for row, entry in lane.read(np.flatnonzero(is_selected), _COLUMNS):
        cause = causes[superseders[row]] if row in superseders else entry
        reason, detail = _cause(cause, refused.get((lane.lane, cause["document"])))
        if cause is not entry:
            detail = f"superseded by record {cause['high']} ({entry['reason']}): {detail}"
        yield StatusReason(
            record_id=entry["high"] if lane.has_id[row] else written_id(entry["raw"]),
            status=STATUS_OF_BIT[int(lane.bits[row])],
            reason=reason,
            detail=detail,
            schema=entry["schema"],
            table=entry["table"],
            fingerprint=int(lane.fingerprints[row]),
        )


def _cause(entry: dict[str, Any], refusal: tuple[str, str] | None) -> tuple[str, str]:
    if refusal is not None:
        return refusal
    reason = Reason(entry["reason"])
    return reason, entry["detail"] or REASON_TEXTS.get(reason, "")


def written_id(raw: str | None) -> int | None:
    """The record id in the raw record of a reject; ``None`` if it is not an integer."""
    try:
        number = int(json.loads(raw or "{}").get("record_id"))
    except (ValueError, TypeError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None

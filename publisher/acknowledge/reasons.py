"""Reasons for the statuses W, E and F, for the user's reason table and for ``retry``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.acknowledge.status_letters import (
    BIT_OF,
    NONE,
    STATUS_OF_BIT,
    Ids,
    LaneLetters,
    RefusedDocuments,
    fingerprints_in,
    has_record_id,
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


_COLUMNS = [
    *("part", "high", "schema", "table", "reason", "document", "detail", "raw", "fingerprint"),
]


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
        for group in lane.groups:
            bits = lane.bits[group.rows]
            if not (bits == BIT_OF[Status.ERROR]).any():
                continue
            places = np.flatnonzero(
                (bits == BIT_OF[Status.ERROR]) & ~has_record_id(lane.read(group, ["part"]))
            )
            if len(places):
                table = lane.read(group, ["raw", "fingerprint"]).take(pa.array(places))
                ids = map(written_id, table["raw"].to_pylist())
                yield from zip(ids, fingerprints_in(table).tolist(), strict=True)


def _reasons_of_lane(
    lane: LaneLetters, refused: RefusedDocuments, selected_bits: int
) -> Iterator[StatusReason]:
    by = _superseders(lane, selected_bits)
    for group in lane.groups:
        bits = lane.bits[group.rows]
        places = np.flatnonzero((bits & selected_bits) != NONE)
        if not len(places):
            continue
        table = lane.read(group, _COLUMNS)
        table = table.append_column("has_id", pa.array(has_record_id(table)))
        entries = table.take(pa.array(places)).to_pylist()
        for place, entry in zip(places.tolist(), entries, strict=True):
            yield _reason(lane, group.rows.start + place, int(bits[place]), entry, by, refused)


def _reason(
    lane: LaneLetters,
    row: int,
    bits: int,
    entry: dict[str, Any],
    superseders: dict[int, dict[str, Any]],
    refused: RefusedDocuments,
) -> StatusReason:
    superseder = superseders.get(row)
    cause = superseder or entry
    reason, detail = _cause(cause, refused.get((lane.lane, cause["document"])))
    if superseder is not None:
        detail = f"superseded by record {superseder['high']} ({entry['reason']}): {detail}"
    return StatusReason(
        record_id=entry["high"] if entry["has_id"] else written_id(entry["raw"]),
        status=STATUS_OF_BIT[bits],
        reason=reason,
        detail=detail,
        schema=entry["schema"],
        table=entry["table"],
        fingerprint=entry["fingerprint"],
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


def _superseders(lane: LaneLetters, selected_bits: int) -> dict[int, dict[str, Any]]:
    """For each superseded row with a selected status, the record that superseded it."""
    is_selected = (lane.bits[lane.superseded] & selected_bits) != NONE
    superseded, by = lane.superseded[is_selected], lane.by[is_selected]
    is_in_lane = by >= 0
    superseded, by = superseded[is_in_lane], by[is_in_lane]
    if not len(by):
        return {}
    records = dict(_records(lane, np.unique(by)))
    return {
        row: records[number] for row, number in zip(superseded.tolist(), by.tolist(), strict=True)
    }


def _records(lane: LaneLetters, rows: Ids) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads the records at these rows, which are sorted."""
    for group in lane.groups:
        low, high = np.searchsorted(rows, (group.rows.start, group.rows.stop))
        if low == high:
            continue
        table = lane.read(group, ["high", "reason", "document", "detail"])
        records = table.take(pa.array(rows[low:high] - group.rows.start))
        yield from zip(rows[low:high].tolist(), records.to_pylist(), strict=True)

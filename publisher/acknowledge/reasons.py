"""Why records got W, E or F: rows for the user's reason table, and what ``retry`` selects by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.acknowledge.status_letters import (
    LETTERS,
    NONE,
    E,
    F,
    Ids,
    LaneLetters,
    Refused,
    W,
    fingerprints_in,
    marks,
    named,
)
from publisher.model.change import Reason
from publisher.model.reason_texts import REASON_TEXTS


class Told(NamedTuple):
    """Why a record got its letter.  A superseded one has the reason of the change which superseded
    it."""

    record_id: int | None
    letter: str
    reason: str
    detail: str
    schema: str | None
    table: str | None
    fingerprint: int | None = None
    """Of its row."""


_COLUMNS = [
    *("part", "high", "schema", "table", "reason", "document", "detail", "raw", "fingerprint"),
]


def told(lanes: list[LaneLetters], refused: Refused, asked: int = W | E | F) -> Iterator[Told]:
    """Why the records that ask for one of these letters got it, lane by lane."""
    for lane in lanes:
        yield from _of_lane(lane, refused, asked)


def torn(lanes: list[LaneLetters]) -> Iterator[Told]:
    """Why ids got E of which one record was published and another is held."""
    for window in marks(lanes):
        for number in window.torn.tolist():
            detail = (
                f"record_id {number} stands in several rows, of which one was published and one is "
                "held: give each row its own record_id, and status N to the one that was held"
            )
            yield Told(number, "E", Reason.DOUBLE_RECORD, detail, None, None)


def unnamed(lanes: list[LaneLetters]) -> Iterator[tuple[int | None, int]]:
    """The ids, where they are integers at all, of the records whose id is no positive number, and the
    fingerprints of their rows.

    All of them are rejected."""
    for lane in lanes:
        for group in lane.groups:
            bits = lane.bits[group.rows]
            if not (bits == E).any():
                continue
            places = np.flatnonzero((bits == E) & ~named(lane.read(group, ["part"])))
            if len(places):
                table = lane.read(group, ["raw", "fingerprint"]).take(pa.array(places))
                ids = map(written_id, table["raw"].to_pylist())
                yield from zip(ids, fingerprints_in(table).tolist(), strict=True)


def _of_lane(lane: LaneLetters, refused: Refused, asked: int) -> Iterator[Told]:
    by = _superseders(lane, asked)
    for group in lane.groups:
        bits = lane.bits[group.rows]
        places = np.flatnonzero((bits & asked) != NONE)
        if not len(places):
            continue
        table = lane.read(group, _COLUMNS)
        found = table.append_column("named", pa.array(named(table))).take(pa.array(places))
        for place, entry in zip(places.tolist(), found.to_pylist(), strict=True):
            yield _told(lane, group.rows.start + place, int(bits[place]), entry, by, refused)


def _told(
    lane: LaneLetters,
    row: int,
    bits: int,
    entry: dict[str, Any],
    superseders: dict[int, dict[str, Any]],
    refused: Refused,
) -> Told:
    superseder = superseders.get(row)
    cause = superseder or entry
    reason, detail = _cause(cause, refused.get((lane.lane, cause["document"])))
    if superseder is not None:
        detail = f"superseded by record {superseder['high']} ({entry['reason']}): {detail}"
    return Told(
        record_id=entry["high"] if entry["named"] else written_id(entry["raw"]),
        letter=LETTERS[bits],
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
    """The record id of a rejected record where it is an integer."""
    try:
        number = int(json.loads(raw or "{}").get("record_id"))
    except (ValueError, TypeError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def _superseders(lane: LaneLetters, asked: int) -> dict[int, dict[str, Any]]:
    """For each superseded row that is asked for, the record that superseded it."""
    wanted = (lane.bits[lane.superseded] & asked) != NONE
    superseded, by = lane.superseded[wanted], lane.by[wanted]
    known = by >= 0
    superseded, by = superseded[known], by[known]
    if not len(by):
        return {}
    records = dict(_records(lane, np.unique(by)))
    return {
        row: records[number] for row, number in zip(superseded.tolist(), by.tolist(), strict=True)
    }


def _records(lane: LaneLetters, rows: Ids) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records at these rows, which ascend."""
    for group in lane.groups:
        low, high = np.searchsorted(rows, (group.rows.start, group.rows.stop))
        if low == high:
            continue
        table = lane.read(group, ["high", "reason", "document", "detail"])
        taken = table.take(pa.array(rows[low:high] - group.rows.start))
        yield from zip(rows[low:high].tolist(), taken.to_pylist(), strict=True)

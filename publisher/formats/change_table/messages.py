"""JSON messages, one per line: the product that writes change tables can send them to Kafka instead.

``{"data": {...}, "beforeData": {...} or null, "headers": {...}}``, alone or as ``message`` of an
envelope.  The before image is inside the UPDATE.  Masks count data columns only; ordinal 1 is bit 0.
``columnMask`` names the columns of the message: null in any other column is not a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.errors import FatalError
from publisher.formats.change_table import change_seq as seq
from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.change_table.masks import (
    MaskEvidence,
    MaskReading,
    ambiguity_error,
    are_equivalent,
    candidate_readings,
    remaining_readings,
)
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.pairs import PairedRows
from publisher.formats.change_table.rows import RAW, UNKNOWN, WORDS, ChangeOperation, ChangeRows
from publisher.formats.columns.object_names import RecordFault
from publisher.formats.files.json_lines import LineProblem, parse_object
from publisher.model.change import Reason

OPERATIONS = {word: WORDS[word] for word in ("INSERT", "UPDATE", "DELETE")}
_HEADERS = ("change_seq", "change_mask", "column_mask", "transaction_id", "timestamp")
_NAMES = {name: f"\0{name}" for name in _HEADERS}
"""Names of the columns made from headers; no data column can have such a name."""


@dataclass(frozen=True, slots=True)
class ChangeMessage:
    """One message as it was read."""

    number: int
    """Number of its line."""
    raw: str
    table: str | None
    operation: int
    data: Mapping[str, str | None]
    before: Mapping[str, str | None] | None
    change_seq: str | None
    change_mask: str | None
    column_mask: str | None
    transaction_id: str | None
    timestamp: str | None
    fault: RecordFault | None

    @property
    def mask(self) -> str | None:
        """The mask that applies to its operation."""
        return self.column_mask if self.operation == ChangeOperation.INSERT else self.change_mask


class MessageShape(NamedTuple):
    """The properties shared by messages that are read together."""

    table: str
    columns: tuple[str, ...]
    masked: bool


KeyBits = Callable[[MessageShape], int]
"""Returns the primary key of messages of one shape as bits by column; 0 if it is not known."""


def parse_message(number: int, line: bytes) -> ChangeMessage:
    """Parses the message on a line.  Raises ``LineProblem`` if the line is not a message."""
    envelope = _dictionary(parse_object(line))
    message = envelope.get("message", envelope)
    if isinstance(message, dict) and isinstance(message.get("message"), dict):
        message = message["message"]
    headers = message.get("headers") if isinstance(message, dict) else None
    if not isinstance(headers, dict):
        raise LineProblem("no headers in the message; export data, beforeData and headers")
    operation = str(headers.get("operation") or "").strip()
    data, before = (
        _values(message.get("data"), "data"),
        _values(message.get("beforeData"), "beforeData"),
    )
    code = OPERATIONS.get(operation, UNKNOWN)
    if data is None or (code == ChangeOperation.DELETE and not any(data.values())):
        data, before = before, None
    if data is None:
        raise LineProblem("neither data nor beforeData in the message; export both")
    text = {name: None if value is None else str(value) for name, value in headers.items()}
    parts = (
        text.get("schema") or text.get("schemaName"),
        text.get("table") or text.get("tableName"),
    )
    return ChangeMessage(
        number=number,
        raw=line.decode().strip(),
        table=".".join(part for part in parts if part) if parts[1] else None,
        operation=code,
        data=data,
        before=before if code == ChangeOperation.UPDATE else None,
        change_seq=text.get("changeSequence"),
        change_mask=text.get("changeMask"),
        column_mask=text.get("columnMask"),
        transaction_id=text.get("transactionId"),
        timestamp=text.get("timestamp"),
        fault=_fault(operation, code),
    )


def _fault(operation: str, code: int) -> RecordFault | None:
    if code != UNKNOWN:
        return None
    detail = (
        "a row of a full load, which is not a change; leave it out"
        if operation == "REFRESH"
        else f"operation {operation[:60]!r} is not known; it must be INSERT, UPDATE or DELETE"
    )
    return RecordFault(Reason.CHANGE_OPERATION, detail)


def _dictionary(pairs: object) -> dict[str, Any]:
    """Turns nested objects into dictionaries; numbers stay text, as written."""
    assert isinstance(pairs, tuple)
    if len({key for key, _ in pairs}) < len(pairs):
        raise LineProblem("a key appears twice in an object; keep one of them")
    return {key: _dictionary(v) if isinstance(v, tuple) else v for key, v in pairs}


def _values(image: object, where: str) -> dict[str, str | None] | None:
    if image is None:
        return None
    if not isinstance(image, dict):
        raise LineProblem(f"{where} is not an object; export it as one")
    texts: dict[str, str | None] = {}
    for name, value in image.items():
        texts[name] = text = _text(value)
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise LineProblem(f"{name} holds half of a surrogate pair; fix it") from None
    return texts


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return None if value is None else str(value)


def shape_of(message: ChangeMessage, table: str | None = None) -> MessageShape:
    """The shape of a message; ``table`` applies if the message names none."""
    columns = tuple(dict.fromkeys((*message.data, *(message.before or ()))))
    masked = message.operation == ChangeOperation.DELETE or message.mask is not None
    return MessageShape(message.table or table or "", columns, masked)


def layout_of(shape: MessageShape, where: str) -> ChangeTableLayout:
    """The layout of messages of one shape.  Raises ``FatalError`` if they name no table."""
    if not shape.table:
        raise FatalError(f"{where}: its messages name no table; set source_table")
    names = (*_NAMES.values(), *shape.columns)
    return ChangeTableLayout(names, _NAMES, shape.columns, shape.table)


def pairs_of(messages: list[ChangeMessage], layout: ChangeTableLayout, split: int) -> PairedRows:
    """Turns messages of one shape in a split into operations with their before images."""
    texts = {
        name: [getattr(m, name) for m in messages] for name in _HEADERS if name != "change_mask"
    }
    texts["change_mask"] = [m.mask for m in messages]
    texts["change_seq"] = [None if v is None else v.strip() for v in texts["change_seq"]]
    arrays = [pa.array(texts[name], pa.string()) for name in _HEADERS]
    arrays += [pa.array([m.data.get(n) for m in messages], pa.string()) for n in layout.data]
    arrays.append(pa.array([m.raw for m in messages], pa.string()))
    names = [*layout.names, RAW]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    befores = [m.before or {} for m in messages]
    before_arrays = [pa.nulls(len(messages), pa.string()) for _ in _HEADERS]
    before_arrays += [pa.array([b.get(name) for b in befores], pa.string()) for name in layout.data]
    before = pa.RecordBatch.from_arrays([*before_arrays, arrays[-1]], names=names)
    high, low, placed = seq.parse_column(arrays[0])
    rows = ChangeRows(
        batch,
        np.zeros(len(messages), np.int64),
        np.full(len(messages), split),
        np.array([m.number for m in messages], np.int64),
        np.array([m.operation for m in messages], np.int64),
        high,
        low,
        placed,
    )
    for at, message in enumerate(messages):
        if message.fault is not None:
            rows.faults[at] = message.fault
    rows.reject(
        ~placed,
        RecordFault(
            Reason.CHANGE_SEQ, f"changeSequence is not a change_seq: {seq.EXPECTED_FORM}; export it"
        ),
    )
    has_before = np.array([m.before is not None for m in messages], bool)
    zeros = np.zeros(len(messages), np.int64)
    return PairedRows(rows, before, has_before, zeros, zeros, before_is_record=False)


def infer_message_reading(
    messages: Iterable[ChangeMessage], options: ChangeTableOptions, key_bits: KeyBits, where: str
) -> MaskReading | None:
    """Infers the reading of the masks of messages; ``None`` without masks.

    ``key_bits`` returns the primary key of messages of one shape, see ``MaskEvidence.key``.  It is called
    only if the masks of DELETE messages must decide.

    Raises:
        FatalError: The masks leave several readings, or none.
    """
    evidence: dict[int, MaskEvidence] = {}
    deletes: dict[MessageShape, MaskEvidence] = {}
    for message in messages:
        if message.operation == UNKNOWN:
            continue
        shape = shape_of(message, options.source_table)
        columns = shape.columns
        if message.operation == ChangeOperation.DELETE and message.change_mask:
            delete = (int(message.operation), message.change_mask.strip())
            deletes.setdefault(shape, MaskEvidence()).add([(delete, 1)])
        masks_of_width = evidence.setdefault(len(columns), MaskEvidence())
        _add_masks(masks_of_width, message, columns)
    remaining = _common_readings(evidence, options, where)
    if len(remaining) > 1:
        remaining = _readings_by_keys(deletes, remaining, key_bits)
    if len(remaining) > 1:
        raise ambiguity_error(remaining, where)
    return next(iter(remaining), None)


def _add_masks(evidence: MaskEvidence, message: ChangeMessage, columns: tuple[str, ...]) -> None:
    """Adds the masks of a message, and the columns that differ from its before image."""
    # a columnMask is evidence like the mask of an INSERT
    for operation, mask in (
        (message.operation, message.change_mask),
        (ChangeOperation.INSERT, message.column_mask),
    ):
        if mask and mask.strip("0xX"):
            evidence.add([((int(operation), mask.strip()), 1)])
    if message.before is not None and message.change_mask:
        bits = sum(
            1 << place
            for place, name in enumerate(columns)
            if message.data.get(name) != message.before.get(name)
        )
        if bits:
            evidence.differences[message.change_mask.strip(), bits] += 1


def _common_readings(
    evidence: dict[int, MaskEvidence], options: ChangeTableOptions, where: str
) -> list[MaskReading]:
    """The readings that messages of all widths allow, but only one of them if they all give the same columns;
    none without masks."""
    with_masks = {width: masks for width, masks in sorted(evidence.items()) if masks.masks}
    if not with_masks:
        return []
    readings = (reading._replace(headers=0) for reading in candidate_readings(options, [0]))
    remaining = candidates = list(dict.fromkeys(readings))
    if len(candidates) == 1:
        return candidates
    for width, masks in with_masks.items():
        allowed = remaining_readings(masks, candidates, width)
        remaining = [reading for reading in remaining if reading in allowed]
    if not remaining:
        raise FatalError(
            f"{where}: masks set bits beyond the last column in both orders; fix the masks"
        )
    if all(are_equivalent(m, remaining, width) for width, m in with_masks.items()):
        return remaining[:1]
    return remaining


def _readings_by_keys(
    deletes: dict[MessageShape, MaskEvidence], readings: list[MaskReading], key_bits: KeyBits
) -> list[MaskReading]:
    """The readings in which masks of DELETE messages set the bits of known keys; all without known keys."""
    remaining = readings
    for shape, masks in deletes.items():
        masks.key = key_bits(shape)
        if masks.key:
            supported = remaining_readings(masks, readings, len(shape.columns))
            remaining = [reading for reading in remaining if reading in supported]
    return remaining or readings


def group_by_shape(
    messages: Iterable[ChangeMessage], table: str | None
) -> Iterator[tuple[MessageShape, list[ChangeMessage]]]:
    """Groups messages by shape, in their order."""
    shapes: dict[MessageShape, list[ChangeMessage]] = {}
    for message in messages:
        shapes.setdefault(shape_of(message, table), []).append(message)
    yield from shapes.items()

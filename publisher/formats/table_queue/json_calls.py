"""Samples as JSON lines: an object for each call, its record in hex."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from publisher.formats.files.json_lines import LineProblem, lines, parse_object
from publisher.formats.files.text_blocks import readable
from publisher.formats.table_queue.calls import (
    LAST_ORDINAL,
    NO_RECORD,
    Call,
    CallEnvelope,
    CallProblem,
    SampleBlock,
    UnusablePiece,
    to_micros,
)

_LINES = 16_384
_BYTES = 8 << 20
_LONGEST = 1000
_SHOWN = 2000
_INT32 = 2**31


def json_line(call: Call) -> str:
    """Formats a call as a line of JSON, without a line end."""
    fields: dict[str, Any] = {
        "sweep": call.sweep,
        "time": call.time.astimezone(UTC).isoformat(),
        "node": call.node,
        "ordinal": call.ordinal,
        "completion": call.completion,
        "code": call.code,
        "system_error": call.system_error,
        "code_page": call.code_page,
        "record": None if call.record is None else call.record.hex(),
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def read_json_blocks(
    blocks: Iterator[bytes], first: int, limit: int, record_bytes: int
) -> Iterator[SampleBlock]:
    """Reads the calls of the lines of a split, whose first line has number ``first``."""
    builder = _BlockBuilder(record_bytes)
    for number, line, why in lines(blocks, first, limit):
        if why is None and not line.strip():
            continue
        builder.add(number, line, why)
        if builder.full():
            yield builder.block()
            builder = _BlockBuilder(record_bytes)
    yield builder.block()


class _BlockBuilder:
    """Collects calls until they fill a block."""

    def __init__(self, record_bytes: int) -> None:
        self._count = self._size = 0
        self._width = record_bytes
        self._envelopes: list[CallEnvelope] = []
        self._lengths: list[int] = []
        self._records: list[bytes] = []
        self._unusable: list[UnusablePiece] = []

    def full(self) -> bool:
        return self._count >= _LINES or self._size >= _BYTES

    def add(self, number: int, line: bytes, why: str | None) -> None:
        self._count += 1
        self._size += len(line)
        try:
            if why is not None:
                raise CallProblem("json", why)
            envelope, record = _call(number, line)
        except LineProblem as problem:
            self._unusable.append(
                UnusablePiece(number, "json", str(problem), readable(line, _SHOWN))
            )
        except CallProblem as problem:
            self._unusable.append(
                UnusablePiece(number, problem.problem, str(problem), readable(line, _SHOWN))
            )
        else:
            self._envelopes.append(envelope)
            self._lengths.append(NO_RECORD if record is None else len(record))
            self._records.append(record or b"")

    def block(self) -> SampleBlock:
        width = self._width
        # a record of another length is rejected by its length, so its bytes do not matter
        even = b"".join(record[:width].ljust(width, b"\0") for record in self._records)
        records = np.frombuffer(even, np.uint8).reshape(-1, width)
        return SampleBlock(
            self._envelopes, self._lengths, records, self._records, tuple(self._unusable)
        )


def _call(number: int, line: bytes) -> tuple[CallEnvelope, bytes | None]:
    """Parses the envelope of a call and its record."""
    pairs = parse_object(line)
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise CallProblem("json", "a key appears twice in the object; remove one of them")
    envelope = CallEnvelope(
        row=number,
        sweep=_sweep(fields),
        time=_time(fields),
        node=_text(fields, "node") or "",
        ordinal=_number(fields, "ordinal", 1, LAST_ORDINAL),
        completion=_text(fields, "completion"),
        code=_optional(fields, "code"),
        system_error=_optional(fields, "system_error"),
        code_page=_text(fields, "code_page"),
    )
    return envelope, _record(fields)


def _sweep(fields: Mapping[str, object]) -> str:
    text = _text(fields, "sweep")
    if text is None or not text.strip():
        raise CallProblem("sweep", "the sweep is missing; record its number")
    text = text.strip()
    return str(int(text)) if text.isascii() and text.isdecimal() else text


def _time(fields: Mapping[str, object]) -> int:
    text = _text(fields, "time")
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        raise CallProblem(
            "time", f"time: {text!r} is not a time; record it as 2026-01-31T12:00:00.000Z"
        ) from None
    return to_micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _number(fields: Mapping[str, object], name: str, least: int, greatest: int) -> int:
    value = fields.get(name)
    try:
        number = int(value) if isinstance(value, str) and len(value) <= 20 else None
    except ValueError:
        number = None
    if number is None or not least <= number <= greatest:
        raise CallProblem(
            name, f"{name}: not a number from {least} to {greatest}; fix the recording"
        )
    return number


def _optional(fields: Mapping[str, object], name: str) -> int | None:
    if fields.get(name) is None:
        return None
    return _number(fields, name, -_INT32, _INT32 - 1)


def _text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise CallProblem(
            name, f"{name}: not a text of at most {_LONGEST} characters; fix the recording"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CallProblem(
            name, f"{name}: contains half of a surrogate pair; fix the escape"
        ) from None
    return value


def _record(fields: Mapping[str, object]) -> bytes | None:
    value = fields.get("record")
    if value is None:
        return None
    try:
        return bytes.fromhex(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise CallProblem("hex", "record: not hex; record each byte as two digits") from None

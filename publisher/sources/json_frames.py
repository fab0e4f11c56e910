"""Framing of JSON lines: one object per line; numbers stay the text they are written with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NoReturn

import numpy as np
import pyarrow as pa

from publisher.sources.frames import Broken, Frame
from publisher.sources.snapshot_options import Columns, SnapshotOptions
from publisher.sources.text_blocks import Tail, readable

BATCH_ROWS = 16_384

Row = list[str | None]


class _ProblemError(ValueError):
    """A line that is no record; the message ends with what to do."""


def frames(
    blocks: Iterator[bytes | Tail], first: int, columns: Columns, options: SnapshotOptions
) -> Iterator[Frame]:
    """Frames of the blocks of a split whose first line has number ``first``.  Blank lines are no
    records."""
    reader = _Reader(columns)
    for number, line, why in _lines(blocks, first, options.max_record):
        reader.add(number, line, why)
        if reader.full():
            yield reader.frame()
    yield reader.frame()


def _lines(
    blocks: Iterator[bytes | Tail], number: int, limit: int
) -> Iterator[tuple[int, bytes, str | None]]:
    """Number and bytes of each line, and what is wrong with it before it is even looked at."""
    rest, long = b"", False
    for block in blocks:
        if isinstance(block, Tail):
            yield number, rest, block.reason
            return
        *whole, last = block.split(b"\n")
        for line in whole:
            yield (
                number,
                rest + line,
                "the line is longer than max_record; raise that setting" if long else None,
            )
            rest, long = b"", False
            number += 1
        rest += last
        if len(rest) > limit:
            rest, long = rest[:limit], True
    if rest:
        yield (
            number,
            rest,
            "the line is longer than max_record; raise that setting" if long else None,
        )


class _Reader:
    """Gathers records until they are worth a frame."""

    def __init__(self, columns: Columns) -> None:
        self._names = columns.names
        self._optional = columns.optional
        self._ours = {
            theirs: ours for ours in columns.names for theirs in [columns.written.get(ours, ours)]
        }
        self._folded = {theirs.casefold(): ours for theirs, ours in self._ours.items()}
        self._keys: dict[tuple[str, ...], dict[str, str]] = {}
        self._start()

    def _start(self) -> None:
        self._rows: list[Row] = []
        self._numbers: list[int] = []
        self._broken: list[Broken] = []
        self._size = 0

    def full(self) -> bool:
        return self._size > 4 << 20 or len(self._numbers) + len(self._broken) >= BATCH_ROWS

    def frame(self) -> Frame:
        fields = zip(*self._rows, strict=True) if self._rows else ([] for _ in self._names)
        arrays = [pa.array(list(column), pa.string()) for column in fields]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(self._names))
        frame = Frame(batch, np.array(self._numbers, np.int64), tuple(self._broken))
        self._start()
        return frame

    def add(self, number: int, line: bytes, why: str | None) -> None:
        self._size += len(line)
        if why is None and not line.strip():
            return
        try:
            if why is not None:
                raise _ProblemError(why)
            row = self._row(line)
        except _ProblemError as problem:
            self._broken.append(Broken(number, str(problem), readable(line)))
        else:
            self._rows.append(row)
            self._numbers.append(number)

    def _row(self, line: bytes) -> Row:
        record = _parse(line)
        named = self._keys.get(keys := tuple(record))
        if named is None:
            named = self._name(keys)
            if len(self._keys) < 1000:
                self._keys[keys] = named
        return [_text(record[named[name]], name) if name in named else None for name in self._names]

    def _name(self, keys: tuple[str, ...]) -> dict[str, str]:
        """Our names to the keys of an object."""
        named: dict[str, str] = {}
        for key in keys:
            ours = self._ours.get(key) or self._folded.get(key.casefold())
            if ours is not None:
                if ours in named:
                    raise _ProblemError(f"the key {key} is there twice; leave one of them")
                named[ours] = key
        missing = [n for n in self._names if n not in named and n not in self._optional]
        if missing:
            raise _ProblemError(
                f"no {', '.join(missing)} in the object; add it, or map its name in the settings (columns)"
            )
        return named


def _parse(line: bytes) -> dict[str, object]:
    try:
        record = json.loads(
            line.decode(),
            parse_int=str,
            parse_float=str,
            parse_constant=_constant,
            object_pairs_hook=_once,
        )
    except UnicodeDecodeError:
        raise _ProblemError(
            "bytes that are no text in the file's encoding; set the right encoding"
        ) from None
    except json.JSONDecodeError as problem:
        raise _ProblemError(
            f"no JSON ({problem.msg} at character {problem.colno}); mend the line"
        ) from None
    except RecursionError:
        raise _ProblemError("the JSON is nested too deeply; mend the line") from None
    if not isinstance(record, dict):
        raise _ProblemError("the line is no JSON object; write one object per line")
    return record


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise _ProblemError("a key is there twice in the object; leave one of them")
    return record


def _constant(text: str) -> NoReturn:
    raise _ProblemError(f"{text} is no JSON; write null or a number")


def _text(value: object, name: str) -> str | None:
    if value is None:
        return None
    if value is True or value is False:
        return "true" if value else "false"
    if not isinstance(value, str):
        raise _ProblemError(f"{name} holds a nested value; write text, a number or null")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _ProblemError(f"{name} holds half of a surrogate pair; mend the escape") from None
    return value

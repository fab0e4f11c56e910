"""Framing of JSON lines: one object per line; numbers keep their text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from typing import NoReturn

import numpy as np
import pyarrow as pa

from publisher.formats.files.csv_records import NO_TEXT
from publisher.formats.files.frame import Broken, Frame
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from publisher.formats.files.text_blocks import readable
from publisher.model.catalogue import LONGEST_NAME

BATCH_ROWS = 16_384
REMEMBERED = 1000
_LONG = 1 << 20
_MOST_KEYS = 1 << 16
_MOST_COMMAS = 1 << 22
"""Limits of an object on a long line, because keys and items need far more memory than text."""
_KEY = re.compile(rb'(?<!\\)"\s*:')
TOO_LONG = "the line is longer than max_record; raise that setting"
TOO_LONG_KEY = (
    f"a key has {{:,}} characters, but names have {LONGEST_NAME:,} at most;"
    " fix the program that writes it"
)
_EMPTY_KEY = "a key of the object is empty; fix the program that writes it"

Row = tuple[str | None, ...]
_PLAIN = frozenset({str, type(None)})


class LineProblem(ValueError):  # noqa: N818 -- becomes a reject, not an error
    """A line that is not a record; the message ends with advice."""


def frames(
    blocks: Iterator[bytes], first: int, columns: ExpectedColumns, options: SnapshotOptions
) -> Iterator[Frame]:
    """Yields the frames of the blocks of a split whose first line has number ``first``.

    Blank lines are not records.
    """
    reader = _JsonLineReader(columns)
    for number, line, why in lines(blocks, first, options.max_record):
        reader.add(number, line, why)
        if reader.full():
            yield reader.frame()
    yield reader.frame()


def lines(
    blocks: Iterator[bytes], number: int, limit: int
) -> Iterator[tuple[int, bytes, str | None]]:
    """Yields number and bytes of each line, and a reason if it is longer than ``limit``."""
    pending, long = b"", False
    for block in blocks:
        *complete, last = block.split(b"\n")
        for part in complete:
            line = pending + part[: limit + 1]
            yield number, line[:limit], TOO_LONG if long or len(line) > limit else None
            pending, long = b"", False
            number += 1
        pending = (pending + last)[: limit + 1]
        long = len(pending) > limit
    if pending:
        yield number, pending[:limit], TOO_LONG if long else None


class _JsonLineReader:
    """Collects records into frames."""

    def __init__(self, columns: ExpectedColumns) -> None:
        self._names = columns.names
        self._optional = columns.optional
        self._closed = columns.closed
        self._ours = {columns.written_name(ours): ours for ours in columns.names}
        self._folded = {theirs.casefold(): ours for theirs, ours in self._ours.items()}
        self._picks: dict[tuple[str, ...], Callable[[tuple[object, ...]], Row]] = {}
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
                raise LineProblem(why)
            row = self._row(line)
        except LineProblem as problem:
            self._broken.append(Broken(number, str(problem), readable(line)))
        else:
            self._rows.append(row)
            self._numbers.append(number)

    def _row(self, line: bytes) -> Row:
        pairs = parse_object(line)
        keys, values = zip(*pairs, strict=True) if pairs else ((), ())
        pick = self._picks.get(keys)
        if pick is None:
            pick = _picker(self._locate(keys))
            if len(self._picks) < REMEMBERED:
                self._picks[keys] = pick
        row: Row = pick((*values, None))
        if not _PLAIN.issuperset(map(type, row)):
            row = tuple(map(_text, row, self._names))
        if b"\\u" in line:
            _check_pairs(row, self._names)
        return row

    def _locate(self, keys: tuple[str, ...]) -> list[int]:
        """Finds the index among ``keys`` of each of our names; -1 for an absent optional name.

        Index -1 reads the ``None`` that follows the values.
        """
        if len(set(keys)) < len(keys):
            raise LineProblem("a key appears twice in the object; keep one of them")
        places: dict[str, int] = {}
        for at, key in enumerate(keys):
            ours = self._ours.get(key) or self._folded.get(key.casefold())
            if ours is not None and places.setdefault(ours, at) != at:
                raise LineProblem(f"the key {key} appears twice; keep one of them")
            if ours is None and self._closed:
                if len(key) > LONGEST_NAME:
                    raise LineProblem(TOO_LONG_KEY.format(len(key)))
                if not key.strip():
                    raise LineProblem(_EMPTY_KEY)
                raise LineProblem(f"the key {key} is not known from the first objects; set columns")
        missing = [n for n in self._names if n not in places and n not in self._optional]
        if missing:
            raise LineProblem(
                f"no {', '.join(missing)} in the object;"
                " add it, or map its name in the settings (columns)"
            )
        return [places.get(name, -1) for name in self._names]


def first_keys(start: bytes) -> list[tuple[str, ...]]:
    """Lists the keys of the objects in the first lines of a file; other lines are skipped."""
    keys = []
    for line in start.split(b"\n"):
        try:
            keys.append(tuple(key for key, _ in parse_object(line)))
        except LineProblem:
            continue
    return keys


def column_keys(start: bytes) -> tuple[str, ...]:
    """Determines the columns from the keys in the first lines of a file.

    Keys of repeated objects come first, beginning with the object with the most keys.  A key of a single
    object is left out if it differs from another key only in case, because the line may be damaged.
    An object with a key that cannot be a name is left out, too.
    """
    listed = Counter(keys for keys in first_keys(start) if all(map(_may_be_name, keys)))
    ordered = sorted(listed, key=lambda keys: (listed[keys] > 1, len(keys)), reverse=True)
    columns: dict[str, None] = {}
    folded: set[str] = set()
    for keys in ordered:
        is_reliable = listed[keys] > 1 or not columns
        columns.update((key, None) for key in keys if is_reliable or key.casefold() not in folded)
        folded.update(key.casefold() for key in keys)
    return tuple(columns)


def _may_be_name(key: str) -> bool:
    return bool(key.strip()) and len(key) <= LONGEST_NAME


def _picker(places: list[int]) -> Callable[[tuple[object, ...]], Row]:
    if len(places) > 1:
        return itemgetter(*places)
    only = itemgetter(*places)
    return lambda values: (only(values),)


def parse_object(line: bytes) -> tuple[tuple[str, object], ...]:
    """Parses the object on a line: keys and values, nested objects as tuples, arrays as lists.

    Raises ``LineProblem``.
    """
    if len(line) > _LONG:
        _check_amount(line)
    try:
        pairs = _DECODER.decode(line.decode())
        if b"\\u" in line:
            _check_keys(pairs)
    except UnicodeDecodeError:
        raise LineProblem(NO_TEXT) from None
    except json.JSONDecodeError as problem:
        raise LineProblem(
            f"not JSON ({problem.msg} at character {problem.colno}); fix the line"
        ) from None
    except RecursionError:
        raise LineProblem("the JSON is nested too deeply; fix the line") from None
    if not isinstance(pairs, tuple):
        raise LineProblem("the line is not a JSON object; write one object per line")
    return pairs


def _check_amount(line: bytes) -> None:
    """Refuses a line whose object would need many times the memory of its text."""
    if line.count(b",") > _MOST_COMMAS:
        raise LineProblem(f"the object has more than {_MOST_COMMAS:,} commas; split the record")
    if next(islice(_KEY.finditer(line), _MOST_KEYS, None), None) is not None:
        raise LineProblem(f"the object has more than {_MOST_KEYS:,} keys; split the record")


def _constant(text: str) -> NoReturn:
    raise LineProblem(f"{text} is not JSON; write null or a number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=str, parse_float=str, parse_constant=_constant
)


def _text(value: object, name: str) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    raise LineProblem(f"{name} holds a nested value; write text, a number or null")


def _check_keys(value: object) -> None:
    """Refuses keys with half of a surrogate pair, in nested objects as well."""
    if isinstance(value, list):
        for item in value:
            _check_keys(item)
    elif isinstance(value, tuple):
        for key, nested in value:
            try:
                key.encode()
            except UnicodeEncodeError:
                raise LineProblem("a key holds half of a surrogate pair; fix the escape") from None
            _check_keys(nested)


def _check_pairs(row: Row, names: tuple[str, ...]) -> None:
    """Refuses values with half of a surrogate pair, which is not a character."""
    for name, value in zip(names, row, strict=True):
        try:
            (value or "").encode()
        except UnicodeEncodeError:
            raise LineProblem(f"{name} holds half of a surrogate pair; fix the escape") from None

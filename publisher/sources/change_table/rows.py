"""The rows of a frame as text, their operations and sequence, and what a row is rejected for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Reason
from publisher.sources.change_table import change_seq
from publisher.sources.change_table.change_seq import Flags, Integers
from publisher.sources.change_table.layout import ChangeTableLayout
from publisher.sources.columns.columns import plain, texts
from publisher.sources.columns.object_names import Fault
from publisher.sources.files.frame import Frame


class ChangeOperation(IntEnum):
    """What a record says (manual, change_oper and operation)."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    BEFORE_IMAGE = 4
    TRUNCATE = 5


_LETTERS = {"I": 1, "U": 2, "D": 3, "B": 4}
_WORDS = {"INSERT": 1, "UPDATE": 2, "DELETE": 3, "BEFOREIMAGE": 4, "TRUNCATE": 5}
FAULTY = -1

RAW = "\0raw"
"""Column with the record as it was read, where the other columns were made of it."""

TextForm = Callable[[str, pa.Array], tuple[pa.Array, Flags]]
"""Text of a data column, by its name, and which of its values have one."""


@dataclass(slots=True)
class ChangeRows:
    """Rows of a change table: all columns as text, by the names of the layout."""

    batch: pa.RecordBatch
    numbers: Integers
    """Number of each row in its file."""
    operations: Integers
    """``ChangeOperation`` of each row, -1 where it is not known."""
    high: Integers
    low: Integers
    placed: Flags
    """Which rows have a change_seq."""
    faults: dict[int, Fault] = field(default_factory=dict)
    """Why rows are rejected, by their index."""

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def take(self, which: Integers) -> ChangeRows:
        """Some of the rows, in this order; faults stay behind."""
        return ChangeRows(
            self.batch.take(pa.array(which)),
            self.numbers[which],
            self.operations[which],
            self.high[which],
            self.low[which],
            self.placed[which],
        )

    def without(self, which: Flags) -> ChangeRows:
        """The other rows, with their faults."""
        left = np.flatnonzero(~which)
        rows = self.take(left)
        rows.faults |= {
            at: self.faults[row] for at, row in enumerate(left.tolist()) if row in self.faults
        }
        return rows

    def fault(self, wrong: Flags, of: Callable[[int], Fault] | Fault) -> None:
        """Reject the rows that ``wrong`` marks, where they are not rejected yet."""
        for row in np.flatnonzero(wrong).tolist():
            if row not in self.faults:
                self.faults[row] = of if isinstance(of, Fault) else of(row)

    def value(self, name: str, row: int) -> str | None:
        """What a row holds in a column."""
        value: str | None = self.batch.column(name)[row].as_py()
        return value


def joined(first: ChangeRows, second: ChangeRows) -> ChangeRows:
    """The rows of both, without faults."""
    return ChangeRows(
        pa.concat_batches([first.batch, second.batch]),
        np.concatenate([first.numbers, second.numbers]),
        np.concatenate([first.operations, second.operations]),
        np.concatenate([first.high, second.high]),
        np.concatenate([first.low, second.low]),
        np.concatenate([first.placed, second.placed]),
    )


def rows_of(frame: Frame, layout: ChangeTableLayout, form: TextForm | None = None) -> ChangeRows:
    """The rows of a frame; ``form`` gives the text of data columns, by default as it is read.

    Columns of the layout that the frame does not hold are left out.
    """
    arrays, unreadable = [], []
    names = [name for name in layout.names if name in frame.batch.schema.names]
    headers = frozenset(layout.headers.values())
    for name in names:
        array = frame.batch.column(name)
        if name not in headers and form is not None:
            text, right = form(name, array)
        else:
            text, right = header_text(array) if name in headers else texts(array)
        arrays.append(text)
        if not right.all():
            unreadable.append((name, right))
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    high, low, placed = change_seq.sequence(batch.column(layout.headers["change_seq"]))
    rows = ChangeRows(batch, frame.rows, operations_of(batch, layout.headers), high, low, placed)
    for name, right in unreadable:
        rows.fault(
            ~right, Fault(Reason.BROKEN_RECORD, f"{name} is no text; export it as UTF-8 text")
        )
    _check(rows, layout)
    return rows


def header_text(array: pa.Array) -> tuple[pa.Array, Flags]:
    """A header column as text; bytes (a binary mask) as hex."""
    array = plain(array)
    if pa.types.is_binary(array.type):
        values = [None if value is None else value.hex() for value in array.to_pylist()]
        return pa.array(values, pa.string()), np.ones(len(array), bool)
    return texts(array)


def operations_of(batch: pa.RecordBatch, headers: Mapping[str, str]) -> Integers:
    """Operation by letter and by word; -1 where they disagree or neither is known."""
    by = [
        _codes(batch.column(headers[name]), known)
        for name, known in (("change_oper", _LETTERS), ("operation", _WORDS))
        if name in headers
    ]
    if len(by) == 1:
        return np.where(by[0] == 0, FAULTY, by[0])
    letter, word = by
    truncate = (word == ChangeOperation.TRUNCATE) & (letter <= 0)
    same = (letter == word) | (letter == 0) | (word == 0)
    found = np.where(
        truncate, ChangeOperation.TRUNCATE, np.where(same, np.maximum(letter, word), FAULTY)
    )
    return np.where(found == 0, FAULTY, found)


def _codes(column: pa.Array, known: dict[str, int]) -> Integers:
    """Code of each value, 0 for NULL and blank, -1 for what is not known."""
    encoded = pc.dictionary_encode(pc.utf8_trim_whitespace(column).fill_null(""))
    codes = [known.get(value, FAULTY) if value else 0 for value in encoded.dictionary.to_pylist()]
    if not codes:
        return np.zeros(0, np.int64)
    found: Integers = np.array(codes, np.int64)[encoded.indices.to_numpy()]
    return found


def _check(rows: ChangeRows, layout: ChangeTableLayout) -> None:
    shown = {name: layout.headers.get(name) for name in ("change_seq", "change_oper", "operation")}

    def said(row: int) -> str:
        names = [name for name in (shown["change_oper"], shown["operation"]) if name]
        return ", ".join(f"{name} {_short(rows.value(name, row))}" for name in names)

    rows.fault(
        ~rows.placed,
        lambda row: Fault(
            Reason.CHANGE_SEQ,
            f"{_short(rows.value(str(shown['change_seq']), row))} is none: {change_seq.WHAT};"
            " export it as text",
        ),
    )
    rows.fault(
        rows.operations == FAULTY,
        lambda row: Fault(
            Reason.CHANGE_OPERATION,
            f"{said(row)}: not known, or the two disagree; known are I INSERT, U UPDATE, D DELETE,"
            " B BEFOREIMAGE; filter other records out",
        ),
    )
    rows.fault(
        rows.operations == ChangeOperation.TRUNCATE,
        Fault(
            Reason.TRUNCATE,
            "the table was truncated, which no document can say; delete its objects, or publish a new"
            " snapshot of the table",
        ),
    )


def _short(value: str | None) -> str:
    return "NULL" if value is None else repr(value if len(value) <= 60 else f"{value[:60]}…")

"""Rows of a change table as text, with their operation, change_seq, and the fault of each rejected row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.change_table import change_seq
from publisher.formats.change_table.change_seq import Flags, Integers
from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.columns.columns import plain, texts, times
from publisher.formats.columns.object_names import RecordFault
from publisher.formats.files.frame import Frame
from publisher.model.arrays import integers
from publisher.model.change import Reason


class ChangeOperation(IntEnum):
    """The operation of a record (manual, change_oper and operation)."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    BEFORE_IMAGE = 4
    TRUNCATE = 5


WORDS = {op.name.replace("_", ""): op for op in ChangeOperation}
_LETTERS = {word[0]: op for word, op in WORDS.items() if op is not ChangeOperation.TRUNCATE}
UNKNOWN = -1
_DAY = 86_400_000_000
"""Microseconds of a day."""

RAW = "\0raw"
"""Column with the record as it was read, if the other columns were made from it."""

TextForm = Callable[[str, pa.Array], tuple[pa.Array, Flags]]
"""Converts a data column, given by its name, to text; marks the valid values."""


@dataclass(slots=True)
class ChangeRows:
    """Rows of a change table: all columns as text, by the names of the layout."""

    batch: pa.RecordBatch
    files: Integers
    """The file of each row, by its number in the input."""
    splits: Integers
    """The split that framed each row."""
    numbers: Integers
    """Number of each row in its file."""
    operations: Integers
    """``ChangeOperation`` of each row, or ``UNKNOWN``."""
    high: Integers
    low: Integers
    placed: Flags
    """Marks the rows that have a valid change_seq."""
    faults: dict[int, RecordFault] = field(default_factory=dict)
    """Faults of rejected rows, by their index."""

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def take(self, which: Integers) -> ChangeRows:
        """Some of the rows, in the order of ``which``, without their faults."""
        return ChangeRows(
            self.batch.take(pa.array(which)),
            self.files[which],
            self.splits[which],
            self.numbers[which],
            self.operations[which],
            self.high[which],
            self.low[which],
            self.placed[which],
        )

    def without(self, which: Flags) -> ChangeRows:
        """The rows that ``which`` does not mark, with their faults."""
        others = np.flatnonzero(~which)
        rows = self.take(others)
        rows.faults |= {
            at: self.faults[row] for at, row in enumerate(others.tolist()) if row in self.faults
        }
        return rows

    def reject(self, which: Flags, fault: Callable[[int], RecordFault] | RecordFault) -> None:
        """Rejects the marked rows that are not rejected yet; ``fault`` may depend on the row."""
        for row in np.flatnonzero(which).tolist():
            if row not in self.faults:
                self.faults[row] = fault if isinstance(fault, RecordFault) else fault(row)

    def value(self, name: str, row: int) -> str | None:
        """The value of a row in a column."""
        value: str | None = self.batch.column(name)[row].as_py()
        return value


GROUP_COLUMNS = ("high", "low")
"""Columns of decoded rows with the two integers of change_seq, in which all rows of a change are equal."""
_RECORD = "record"


def write_rows(rows: ChangeRows) -> pa.RecordBatch:
    """Writes rows without faults as a batch; the columns of the change table are inside of one column."""
    record = pa.StructArray.from_arrays(rows.batch.columns, names=rows.batch.schema.names)
    columns = {
        "file": rows.files,
        "split": rows.splits,
        "number": rows.numbers,
        "operation": rows.operations,
        "high": rows.high,
        "low": rows.low,
    }
    return pa.RecordBatch.from_pydict(columns | {_RECORD: record})


def read_rows(batch: pa.RecordBatch) -> ChangeRows:
    """Reads what ``write_rows`` has written."""
    record = batch.column(_RECORD)
    names = [field.name for field in record.type]
    file, split, number, operation, high, low = map(integers, batch.columns[:-1])
    return ChangeRows(
        pa.RecordBatch.from_arrays(record.flatten(), names=names),
        file,
        split,
        number,
        operation,
        high,
        low,
        np.ones(len(file), bool),
    )


def rows_of(
    frame: Frame,
    layout: ChangeTableLayout,
    form: TextForm | None = None,
    *,
    file: int = 0,
    split: int = 0,
) -> ChangeRows:
    """The rows of a frame; ``form`` converts data columns to text; by default their text stays as read.

    Columns of the layout that the frame lacks are left out.
    """
    arrays, unreadable = [], []
    names = [name for name in layout.names if name in frame.batch.schema.names]
    headers = frozenset(layout.headers.values())
    for name in names:
        array = frame.batch.column(name)
        if name not in headers and form is not None:
            text, readable = form(name, array)
        else:
            text, readable = header_text(array) if name in headers else texts(array)
        arrays.append(text)
        if not readable.all():
            unreadable.append((name, readable))
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    high, low, placed = change_seq.parse_column(batch.column(layout.headers["change_seq"]))
    rows = ChangeRows(
        batch,
        np.full(len(frame.rows), file),
        np.full(len(frame.rows), split),
        frame.rows,
        operations_of(batch, layout.headers),
        high,
        low,
        placed,
    )
    for name, readable in unreadable:
        rows.reject(
            ~readable,
            RecordFault(Reason.BROKEN_RECORD, f"{name} is not text; export it as UTF-8 text"),
        )
    _reject_invalid_headers(rows, layout)
    return rows


def header_text(array: pa.Array) -> tuple[pa.Array, Flags]:
    """A header column as text; bytes (of a binary mask) as hex."""
    array = plain(array)
    if pa.types.is_binary(array.type):
        values = [None if value is None else value.hex() for value in array.to_pylist()]
        return pa.array(values, pa.string()), np.ones(len(array), bool)
    return texts(array)


def header_times(rows: ChangeRows, layout: ChangeTableLayout, zone: str) -> Integers | None:
    """Header timestamps of rows, -1 if unknown; ``None`` without a timestamp column.

    Rejects rows whose text is not a time.  The first day of 1970 means unknown (manual, timestamp).
    """
    name = layout.headers.get("timestamp")
    if name is None:
        return None
    column = rows.batch.column(name)
    moments, known = times(column, zone)
    rows.reject(
        column.is_valid().to_numpy(zero_copy_only=False) & ~known,
        lambda row: RecordFault(
            Reason.EVENT_TIME,
            f"{name} {str(rows.value(name, row))[:60]!r} is not a time; write it as"
            " yyyy-mm-dd hh:mm:ss[.fffffffff] [zone]",
        ),
    )
    return np.where(~known | ((moments >= 0) & (moments < _DAY)), -1, moments)


def operations_of(batch: pa.RecordBatch, headers: Mapping[str, str]) -> Integers:
    """Operations by letter and by word; ``UNKNOWN`` if they disagree or neither is known."""
    codes = [
        _codes(batch.column(headers[name]), known)
        for name, known in (("change_oper", _LETTERS), ("operation", WORDS))
        if name in headers
    ]
    if len(codes) == 1:
        return np.where(codes[0] == 0, UNKNOWN, codes[0])
    letter, word = codes
    truncate = (word == ChangeOperation.TRUNCATE) & (letter <= 0)
    agree = (letter == word) | (letter == 0) | (word == 0)
    operation = np.where(agree, np.maximum(letter, word), UNKNOWN)
    operations = np.where(truncate, ChangeOperation.TRUNCATE, operation)
    return np.where(operations == 0, UNKNOWN, operations)


def _codes(column: pa.Array, known: Mapping[str, int]) -> Integers:
    """Code of each value: 0 for NULL and blank, ``UNKNOWN`` for any other text."""
    encoded = pc.dictionary_encode(pc.utf8_trim_whitespace(column).fill_null(""))
    codes = [known.get(value, UNKNOWN) if value else 0 for value in encoded.dictionary.to_pylist()]
    if not codes:
        return np.zeros(0, np.int64)
    by_row: Integers = np.array(codes, np.int64)[encoded.indices.to_numpy()]
    return by_row


def _reject_invalid_headers(rows: ChangeRows, layout: ChangeTableLayout) -> None:
    seq = layout.headers["change_seq"]
    kinds = [
        layout.headers[name] for name in ("change_oper", "operation") if name in layout.headers
    ]

    def operation_of(row: int) -> str:
        return ", ".join(f"{name} {_short(rows.value(name, row))}" for name in kinds)

    rows.reject(
        ~rows.placed,
        lambda row: RecordFault(
            Reason.CHANGE_SEQ,
            f"{seq} {_short(rows.value(seq, row))} is not a change_seq{_hex_note(rows.value(seq, row))}:"
            f" {change_seq.EXPECTED_FORM}; export it as text",
        ),
    )
    rows.reject(
        rows.operations == UNKNOWN,
        lambda row: RecordFault(
            Reason.CHANGE_OPERATION,
            f"{operation_of(row)}: not a known operation, or the two columns disagree; export only I INSERT,"
            " U UPDATE, D DELETE, B BEFOREIMAGE",
        ),
    )
    rows.reject(
        rows.operations == ChangeOperation.TRUNCATE,
        RecordFault(
            Reason.TRUNCATE,
            "the table was truncated, which no document can express; delete its objects, or publish a new"
            " snapshot of the table",
        ),
    )


def _hex_note(value: str | None) -> str:
    """Says that a binary column, which is read as hex, has text."""
    try:
        is_text = bytes.fromhex(value or "x").isdigit()
    except ValueError:
        return ""
    return ", because the column is binary (this is its hex)" if is_text else ""


def _short(value: str | None) -> str:
    return "NULL" if value is None else repr(value if len(value) <= 60 else f"{value[:60]}…")

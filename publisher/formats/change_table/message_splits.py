"""Files of JSON messages: splits, batches, and access to one message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from publisher.errors import FatalError
from publisher.formats.change_table import messages
from publisher.formats.change_table.change_seq import Ranking
from publisher.formats.change_table.child_rows import create_builder
from publisher.formats.change_table.keys import child_fault, key_bits
from publisher.formats.change_table.layout import table_in_path
from publisher.formats.change_table.masks import MaskReading
from publisher.formats.change_table.messages import ChangeMessage, MessageShape
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.to_changes import ChangeTableChangeBuilder
from publisher.formats.columns.object_names import Names, RecordFault
from publisher.formats.columns.record_batches import Place, as_json, broken, nameless, tally
from publisher.formats.contract import Context
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import Split, TextRange
from publisher.formats.files.frame import Broken, Frame
from publisher.formats.files.json_lines import LineProblem, lines
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.files.text_blocks import readable
from publisher.model.catalogue import Catalogue
from publisher.model.change import Outcome, Reason

BATCH_SIZE = 4_096
_MAX_SAMPLE = 10_000
"""Maximum number of messages whose masks are examined for the order of bytes."""
_NO_ROWS = pa.RecordBatch.from_arrays([], names=[])


@dataclass(frozen=True, slots=True)
class MessageLines:
    """A part of a file of messages."""

    lines: TextRange
    reading: MaskReading | None
    """The reading of masks in the whole input; ``None`` if the input has no masks."""


def make_splits(paths: list[Path], snapshot: SnapshotOptions) -> list[Split[TextRange]]:
    """The files that tasks read.  Raises ``FatalError`` for a file of another kind."""
    splits: list[Split[TextRange]] = []
    for path in paths:
        if file_splits.kind_of(path) != "jsonl":
            raise FatalError(
                f'{path}: messages are JSON lines; name the file .jsonl, or set layout = "rows" for tables'
            )
        splits.append(file_splits.json_split(path, snapshot))
    return splits


def with_mask_reading(
    splits: list[Split[TextRange]],
    options: ChangeTableOptions,
    snapshot: SnapshotOptions,
    catalogue: Catalogue,
    where: str,
) -> list[Split[MessageLines]]:
    """Adds the reading of masks, inferred from the first messages; ``catalogue`` may contain keys.

    Raises ``FatalError`` if the masks leave several readings, or none.
    """
    messages_read = (
        item
        for split in splits
        for _, item, _ in _read_lines(split, split.payload, snapshot)
        if isinstance(item, ChangeMessage)
    )
    sample = islice(messages_read, _MAX_SAMPLE)

    def bits_of(shape: MessageShape) -> int:
        return key_bits(messages.layout_of(shape, where), options, catalogue) if shape.table else 0

    reading = messages.infer_message_reading(sample, options, bits_of, where)
    return [split.with_payload(MessageLines(split.payload, reading)) for split in splits]


def read(
    split: Split[MessageLines],
    place: Place,
    ctx: Context,
    options: ChangeTableOptions,
    snapshot: SnapshotOptions,
) -> Iterator[pa.RecordBatch]:
    """Yields batches of ``RECORD_SCHEMA``, the tally last."""
    reader = _MessageReader(place, ctx, options, split.payload.reading, split.path)
    record_count = 0
    items = _read_lines(split, split.payload.lines, snapshot)
    while portion := list(islice(items, BATCH_SIZE)):
        record_count += len(portion)
        pieces = tuple(
            Broken(number, item, raw) for number, item, raw in portion if isinstance(item, str)
        )
        if pieces:
            yield broken(Frame(_NO_ROWS, np.zeros(0, np.int64), pieces), place)
        yield from reader.records(
            [item for _, item, _ in portion if isinstance(item, ChangeMessage)]
        )
    yield tally(place, record_count)


def raw_records(
    split: Split[MessageLines], rows: frozenset[int], snapshot: SnapshotOptions
) -> dict[int, str]:
    """Reads some messages again; a line that is not a message is its JSON text."""
    found: dict[int, str] = {}
    for number, item, text in _read_lines(split, split.payload.lines, snapshot):
        if number in rows:
            found[number] = item.raw if isinstance(item, ChangeMessage) else as_json(text)
        if len(found) == len(rows):
            break
    return found


def _read_lines(
    split: Split[object], part: TextRange, snapshot: SnapshotOptions
) -> Iterator[tuple[int, ChangeMessage | str, str]]:
    """Yields each line that is not blank: its number, with its message and "", or with a problem and the
    text of the line."""
    if Path(split.path).stat().st_size != split.length:
        raise FatalError(f"{split.path} has changed since the run began; start again")
    blocks = file_splits.blocks(split.path, part, snapshot)
    for number, line, why in lines(blocks, part.first, snapshot.max_record):
        if why is None and not line.strip():
            continue
        try:
            if why is not None:
                raise LineProblem(why)
            message = messages.parse_message(number, line)
        except LineProblem as problem:
            yield number, str(problem), readable(line)
        else:
            yield number, message, ""


class _MessageReader:
    """Builds records from messages, shape by shape."""

    def __init__(
        self,
        place: Place,
        ctx: Context,
        options: ChangeTableOptions,
        reading: MaskReading | None,
        path: str,
    ) -> None:
        self._place = place
        self._options = options
        self._reading = reading
        self._path = path
        self._ctx = ctx
        self._names = Names(ctx.catalogue, options.schema, options.identifier_case, ctx.lanes)
        self._builders: dict[MessageShape, ChangeTableChangeBuilder] = {}
        self._table = options.source_table or _table_in_path(Path(path), options)
        """The table of messages without a table name."""

    def records(self, portion: list[ChangeMessage]) -> Iterator[pa.RecordBatch]:
        nameless = [message for message in portion if not (message.table or self._table)]
        if nameless:
            portion = [message for message in portion if message.table]
            yield self._reject(nameless, _NAMELESS)
        for shape, group in messages.group_by_shape(portion, self._table):
            yield from self._build(shape, group)

    def _build(self, shape: MessageShape, group: list[ChangeMessage]) -> Iterator[pa.RecordBatch]:
        layout = messages.layout_of(shape, self._path)
        builder = self._builders.get(shape)
        if builder is None:
            fault = self._fault(shape)
            if fault is not None:
                yield self._reject(group, fault)
                return
            reading = self._reading if shape.masked else None
            builder = create_builder(
                layout, reading, (), self._place, self._ctx, self._options, Ranking()
            )
            self._builders[shape] = builder
        yield from builder.records(messages.pairs_of(group, layout, self._place.split))

    def _fault(self, shape: MessageShape) -> RecordFault | None:
        """The fault of all messages of a shape, if they name no known table or lack its key."""
        target = self._names.target(shape.table)
        if isinstance(target, RecordFault):
            detail = f"{target.detail}; or set source_table"
            return target._replace(detail=detail) if shape.table != self._table else None
        if target.child is not None:
            return child_fault(target, shape.columns)
        key = (target.known.key if target.known else ()) or self._options.key
        present = {name.casefold() for name in shape.columns}
        absent = [name for name in key if name.casefold() not in present]
        return RecordFault(Reason.TABLE_KEY, _KEYLESS.format(", ".join(absent))) if absent else None

    def _reject(self, rejected: list[ChangeMessage], fault: RecordFault) -> pa.RecordBatch:
        """Rejects messages whose objects are unknown."""
        return nameless(
            self._place,
            np.array([message.number for message in rejected], np.int64),
            outcome=Outcome.REJECTED.value,
            reason=str(fault.reason),
            detail=fault.detail,
            raw=[message.raw for message in rejected],
        )


_NAMELESS = RecordFault(
    Reason.TABLE_NAME,
    "the headers of the message name no table; set source_table, or export the name",
)
_KEYLESS = "the message lacks {}, which is in the key of its table; export all columns of the table"


def _table_in_path(path: Path, options: ChangeTableOptions) -> str | None:
    """The table that the name of the file or its folder contains, if any."""
    try:
        return table_in_path(path, options)
    except FatalError:
        return None

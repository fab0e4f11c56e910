"""Query-backs of whole rows that stand alone in their poll: asked and written many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Decision, Document, Object
from publisher.model.change_batches import changes_of, tuples
from publisher.model.document_batches import Documents
from publisher.model.keys import parse
from publisher.planning.columnar.rows import Flags, Numbers, Rows, flags_of
from publisher.planning.columnar.templates import Attribute, Frame, attribute_of, frame_of
from publisher.planning.columnar.values import converted
from publisher.planning.columnar.writer import Envelopes, Groups, shown
from publisher.planning.polls import ObjectPoll, PollOptions
from publisher.planning.query_back import Answer, LookedUp, Lookup
from publisher.planning.query_back import Row as CurrentRow
from publisher.planning.renderer import Renderer

_ROWS_AT_ONCE = 1_000
"""One statement for a table; what is read may be long."""


class Read(NamedTuple):
    """A query-back, the object it is about and what the database says of it."""

    row: int
    object: Object
    answer: Answer


@dataclass(slots=True)
class ReadBack:
    """What query-backs gave; documents of single rows with their ranks."""

    documents: list[Documents] = field(default_factory=list)
    singles: list[tuple[int, Document]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    lookups: list[LookedUp] = field(default_factory=list)


class _Column(NamedTuple):
    """A column of a table, its place in the row, and what stands around a value and around NULL."""

    place: int
    value: Attribute
    null: Attribute


class _Kind(NamedTuple):
    """What query-backs of one event type and table have in common."""

    frame: Frame
    columns: list[_Column]


class Reader:
    """Reads and writes the query-backs of a batch."""

    def __init__(
        self,
        rows: Rows,
        lane_rows: Numbers,
        polls: PollOptions,
        renderer: Renderer,
        lookup: Lookup,
    ) -> None:
        self._rows = rows
        self._lane_rows = lane_rows
        self._poll_size = polls.poll_size
        self._renderer = renderer
        self._lookup = lookup
        self._envelopes = Envelopes(rows, lane_rows, polls, renderer)
        self._result = ReadBack()

    def read(self, wanted: Flags) -> ReadBack:
        """What the wanted rows give; each is the only one of its object in its poll."""
        places = np.flatnonzero(wanted)
        for start in range(0, len(places), _ROWS_AT_ONCE):
            self._read(places[start : start + _ROWS_AT_ONCE])
        return self._result

    def _read(self, places: Numbers) -> None:
        batch = self._rows.batch.take(pa.array(places))
        objects = list(tuples(Object, batch, Object._fields))
        answers = self._lookup.answers(list(dict.fromkeys(objects)))
        reads = [
            Read(row, obj, answers[obj]) for row, obj in zip(places.tolist(), objects, strict=True)
        ]
        polls = ((self._rows.rank[places] - 1) // self._poll_size).tolist()
        self._result.lookups += [
            LookedUp(read.object, poll, read.answer)
            for read, poll in zip(reads, polls, strict=True)
        ]
        for kind, alike in self._kinds(reads):
            if kind is None:
                self._singly(alike)
            else:
                self._together(kind, alike)

    def _kinds(self, reads: list[Read]) -> Iterator[tuple[_Kind | None, list[Read]]]:
        """Reads that are written alike; ``None`` for those that go one by one."""
        groups: dict[object, list[Read]] = {}
        for read in reads:
            answer, obj = read.answer, read.object
            alike: object = None
            if isinstance(answer, CurrentRow):
                names = tuple([part[0] for part in parse(obj.key)])
                alike = (obj.schema, obj.table, names, self._rows.type[read.row], answer.columns)
            groups.setdefault(alike, []).append(read)
        for alike, group in groups.items():
            yield (None if alike is None else self._kind(group[0])), group

    def _kind(self, read: Read) -> _Kind | None:
        assert isinstance(read.answer, CurrentRow)
        event_type = int(self._rows.type[read.row])
        frame = frame_of(self._renderer, read.object, event_type)
        meaning = self._renderer.meanings[event_type]
        columns: list[_Column] = []
        for place, column in self._renderer.read_columns(
            read.object, event_type, (), read.answer.columns
        ):
            value = attribute_of(column, meaning.part, no_old=True, no_new=False)
            null = attribute_of(column, meaning.part, no_old=True, no_new=True)
            if value is None or null is None:
                return None
            columns.append(_Column(place, value, null))
        if frame is None or not columns:  # an empty modify is a decision, not a document
            return None
        return _Kind(frame, columns)

    def _singly(self, reads: list[Read]) -> None:
        """As ``Planner`` does it."""
        rows = [read.row for read in reads]
        batch = self._rows.batch.take(pa.array(rows, pa.int64()))
        for change, read in zip(
            changes_of(batch, self._lane_rows[rows].tolist()), reads, strict=True
        ):
            poll = ObjectPoll((change.rank - 1) // self._poll_size, read.object, [change])
            prepared = self._renderer.prepare([change])
            rendered = self._renderer.render(poll, [change], prepared, read.answer)
            self._result.singles += rendered.documents
            self._result.decisions += rendered.decisions

    def _together(self, kind: _Kind, reads: list[Read]) -> None:
        bad = np.zeros(len(reads), np.bool_)
        values = [read.answer.values for read in reads if isinstance(read.answer, CurrentRow)]
        columns = list(zip(*values, strict=True))
        pieces: list[pa.StringArray] = []
        for place, value, null in kind.columns:
            texts = pa.array(columns[place], pa.string())
            assert value.new is not None
            contents = converted(texts, value.new, bad)
            absent = pa.array(~flags_of(texts.is_valid()))
            pieces += [
                pc.if_else(absent, _text_before(null), _text_before(value)),
                pc.fill_null(contents, ""),
                pc.if_else(absent, null.after + null.closing, value.after + value.closing),
            ]
        good = np.flatnonzero(~bad)
        if bad.any():
            self._singly([read for read, wrong in zip(reads, bad.tolist(), strict=True) if wrong])
            pieces = [piece.take(pa.array(good)) for piece in pieces]
        if len(good):
            self._write(kind, np.array([reads[place].row for place in good.tolist()]), pieces)

    def _write(self, kind: _Kind, rows: Numbers, pieces: list[pa.StringArray]) -> None:
        keys = self._envelopes.keys(rows)
        frame, count = kind.frame, len(rows)
        texts = pc.binary_join_element_wise(
            frame.head, shown(keys), frame.middle, *pieces, frame.tail, ""
        )
        operation, suffix = (pa.array([text] * count) for text in (frame.operation, frame.suffix))
        groups = Groups(rows, np.arange(count))
        documents = self._envelopes.documents(groups, keys, operation, suffix, texts)
        self._result.documents.append(documents)


def _text_before(attribute: Attribute) -> str:
    """All that comes before the new value."""
    return attribute.opening + attribute.before + attribute.between

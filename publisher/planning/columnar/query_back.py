"""Looks up and writes row query-backs in bulk, if their object has no other change in the poll."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Decision, Document, Object
from publisher.model.change_batches import changes_of, tuples
from publisher.model.document_batches import Documents
from publisher.model.keys import parse
from publisher.planning.columnar.rows import ChangeColumns, Flags, Numbers
from publisher.planning.columnar.templates import (
    AttributeTemplate,
    DocumentTemplate,
    attribute_template,
    document_template,
)
from publisher.planning.columnar.values import convert_column
from publisher.planning.columnar.writer import DocumentFields, DocumentGroups, escape_keys
from publisher.planning.polls import ObjectPoll, PollOptions
from publisher.planning.query_back import Answer, CurrentRow, CurrentValue, Lookup, ObjectLookup
from publisher.planning.renderer import Renderer
from publisher.xds.values import Converter

_ROWS_AT_ONCE = 1_000
"""Maximum number of objects in one look-up: rows may be long."""


class RowRead(NamedTuple):
    """A query-back with its object and the answer of the database."""

    row: int
    object: Object
    answer: Answer


@dataclass(slots=True)
class QueryBackResult:
    """Results of query-backs; ``singles`` are documents of single rows with their ranks."""

    documents: list[Documents] = field(default_factory=list)
    singles: list[tuple[int, Document]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    lookups: list[ObjectLookup] = field(default_factory=list)


class _Column(NamedTuple):
    """A column of a table: its index in the row, its templates for a value and for NULL."""

    place: int
    value: AttributeTemplate
    null: AttributeTemplate


class _QueryBackTemplate(NamedTuple):
    """The template of query-backs of one event type and table."""

    document: DocumentTemplate
    columns: list[_Column]


class QueryBackPlanner:
    """Looks up and writes the query-backs of a batch."""

    def __init__(
        self,
        rows: ChangeColumns,
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
        self._fields = DocumentFields(rows, lane_rows, polls, renderer)
        self._result = QueryBackResult()

    def read(self, wanted: Flags) -> QueryBackResult:
        """Plans the wanted rows; each must be the only change of its object in its poll."""
        places = np.flatnonzero(wanted)
        for start in range(0, len(places), _ROWS_AT_ONCE):
            self._read(places[start : start + _ROWS_AT_ONCE])
        return self._result

    def _read(self, places: Numbers) -> None:
        batch = self._rows.batch.take(pa.array(places))
        objects = list(tuples(Object, batch, Object._fields))
        answers = self._lookup.answers(list(dict.fromkeys(objects)))
        reads = [
            RowRead(row, obj, answers[obj])
            for row, obj in zip(places.tolist(), objects, strict=True)
        ]
        polls = ((self._rows.rank[places] - 1) // self._poll_size).tolist()
        self._result.lookups += [
            ObjectLookup(read.object, poll, read.answer)
            for read, poll in zip(reads, polls, strict=True)
        ]
        for template, group in self._group_by_template(reads):
            if template is None:
                self._render_singly(group)
            else:
                self._render_together(template, group)

    def _group_by_template(
        self, reads: list[RowRead]
    ) -> Iterator[tuple[_QueryBackTemplate | None, list[RowRead]]]:
        """Groups row reads by their template; ``None`` for rows that are rendered singly."""
        groups: dict[object, list[RowRead]] = {}
        for read in reads:
            answer, obj = read.answer, read.object
            signature: object = None
            if isinstance(answer, CurrentRow):
                names = tuple([part[0] for part in parse(obj.key)])
                signature = (
                    obj.schema,
                    obj.table,
                    names,
                    self._rows.type[read.row],
                    answer.columns,
                )
            groups.setdefault(signature, []).append(read)
        for signature, group in groups.items():
            yield (None if signature is None else self._template(group[0])), group

    def _template(self, read: RowRead) -> _QueryBackTemplate | None:
        assert isinstance(read.answer, CurrentRow)
        event_type = int(self._rows.type[read.row])
        document = document_template(self._renderer, read.object, event_type)
        meaning = self._renderer.meanings[event_type]
        columns: list[_Column] = []
        for place, column in self._renderer.read_columns(
            read.object, event_type, (), read.answer.columns
        ):
            value = attribute_template(column, meaning.part, no_old=True, no_new=False)
            null = attribute_template(column, meaning.part, no_old=True, no_new=True)
            if value is None or null is None:
                return None
            columns.append(_Column(place, value, null))
        if document is None or not columns:  # an empty modify gets a decision, not a document
            return None
        return _QueryBackTemplate(document, columns)

    def _render_singly(self, reads: list[RowRead]) -> None:
        """Renders rows one by one, as ``Planner`` does."""
        rows = [read.row for read in reads]
        batch = self._rows.batch.take(pa.array(rows, pa.int64()))
        for change, read in zip(
            changes_of(batch, self._lane_rows[rows].tolist()), reads, strict=True
        ):
            poll = ObjectPoll((change.rank - 1) // self._poll_size, read.object, [change])
            prepared = self._renderer.prepare([change])
            rendered = self._renderer.render(poll, [change], prepared, read.answer)
            self._result.singles += [
                (draft.first.rank, self._renderer.document(draft)) for draft in rendered.drafts
            ]
            self._result.decisions += rendered.decisions

    def _render_together(self, template: _QueryBackTemplate, reads: list[RowRead]) -> None:
        bad = np.zeros(len(reads), np.bool_)
        values = [read.answer.values for read in reads if isinstance(read.answer, CurrentRow)]
        columns = list(zip(*values, strict=True))
        pieces: list[pa.StringArray] = []
        for place, value, null in template.columns:
            assert value.new is not None
            contents = _convert_values(columns[place], value.new, bad)
            absent = contents.is_null()
            pieces += [
                pc.if_else(absent, _text_before(null), _text_before(value)),
                pc.fill_null(contents, ""),
                pc.if_else(absent, null.after + null.closing, value.after + value.closing),
            ]
        good = np.flatnonzero(~bad)
        if bad.any():
            self._render_singly(
                [read for read, is_bad in zip(reads, bad.tolist(), strict=True) if is_bad]
            )
            pieces = [piece.take(pa.array(good)) for piece in pieces]
        if len(good):
            self._write(template, np.array([reads[place].row for place in good.tolist()]), pieces)

    def _write(
        self, template: _QueryBackTemplate, rows: Numbers, pieces: list[pa.StringArray]
    ) -> None:
        keys = self._fields.keys(rows)
        document, count = template.document, len(rows)
        texts = pc.binary_join_element_wise(
            document.head, escape_keys(keys), document.middle, *pieces, document.tail, ""
        )
        operation, suffix = (
            pa.array([text] * count) for text in (document.operation, document.suffix)
        )
        groups = DocumentGroups(rows, np.arange(count))
        documents = self._fields.documents(groups, keys, operation, suffix, texts)
        self._result.documents.append(documents)


def _convert_values(
    values: Sequence[CurrentValue], converter: Converter, bad: Flags
) -> pa.StringArray:
    """Converts looked-up values to the contents of elements; null if there is no value.

    Several values of an attribute are joined with the tags between them.  Flags wrong values in ``bad``."""
    if not any(isinstance(value, tuple) for value in values):
        return convert_column(pa.array(values, pa.string()), converter, bad)
    lists = pa.array([value or None for value in values], pa.list_(pa.string()))
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    wrong = np.zeros(int(lengths.sum()), np.bool_)
    contents = convert_column(lists.flatten(), converter, wrong)
    bad[np.repeat(np.arange(len(values)), lengths)[wrong]] = True
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    opening, _, closing = converter.around(_MARK).partition(_MARK)
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, contents), closing + opening)
    return pc.if_else(pa.array(lengths > 0), joined, pa.scalar(None, pa.string()))


_MARK = "\ue000"


def _text_before(attribute: AttributeTemplate) -> str:
    """The text before the new value."""
    return attribute.opening + attribute.before + attribute.between

"""Writes row query-backs in bulk, if their object has no other change in the poll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Decision, Object
from publisher.model.change_batches import changes_of, objects_of
from publisher.model.document_batches import Documents
from publisher.model.joined_texts import join_texts
from publisher.planning.columnar.minimal import ColumnEdits, Reduction, reduce_rows
from publisher.planning.columnar.rows import ChangeColumns, Flags, Numbers
from publisher.planning.columnar.rows_ahead import BatchRead
from publisher.planning.columnar.templates import (
    AttributeTemplate,
    DocumentTemplate,
    attribute_template,
    document_template,
)
from publisher.planning.columnar.values import convert_column
from publisher.planning.columnar.writer import DocumentFields, DocumentGroups, escape_keys
from publisher.planning.drafts import Draft
from publisher.planning.polls import ObjectPoll, PollOptions
from publisher.planning.query_back import (
    Answer,
    CurrentRows,
    ObjectLookup,
    RowLookups,
)
from publisher.planning.rendered_columns import RenderedColumn
from publisher.planning.renderer import Renderer
from publisher.xds.escape import ValueProblem
from publisher.xds.values import Converter


class RowRead(NamedTuple):
    """A query-back with the answer of the database."""

    row: int
    answer: Answer


@dataclass(slots=True)
class QueryBackResult:
    """Results of query-backs; ``drafts`` are documents of single rows."""

    documents: list[Documents] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    lookups: list[ObjectLookup | RowLookups] = field(default_factory=list)


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
    """Writes the query-backs of a batch."""

    def __init__(
        self,
        rows: ChangeColumns,
        lane_rows: Numbers,
        polls: PollOptions,
        renderer: Renderer,
        reduction: Reduction | None,
    ) -> None:
        self._reduction = reduction
        self._rows = rows
        self._lane_rows = lane_rows
        self._poll_size = polls.poll_size
        self._renderer = renderer
        self._fields = DocumentFields(rows, lane_rows, polls, renderer)
        self._templates: dict[tuple[object, ...], _QueryBackTemplate | None] = {}
        self._result = QueryBackResult()

    def plan(self, read: BatchRead) -> QueryBackResult:
        """Plans rows, each of which must be the only change of its object in its poll."""
        self._result = QueryBackResult()
        polls = (self._rows.rank[read.rows] - 1) // self._poll_size
        for rows in read.answers.rows:
            objects = read.objects
            if len(rows.places) < objects.num_rows:
                objects = objects.take(pa.array(rows.places))
            lookups = RowLookups(objects, polls[rows.places], rows.columns, rows.values)
            self._result.lookups.append(lookups)
            (first,) = objects_of(objects.slice(0, 1))
            self._render_rows(read.rows[rows.places], first, rows)
        others = read.answers.others
        objects = read.objects.take(pa.array(others, pa.int64()))
        self._result.lookups += [
            ObjectLookup(obj, int(polls[place]), answer)
            for obj, (place, answer) in zip(objects_of(objects), others.items(), strict=True)
        ]
        self._render_singly([RowRead(int(read.rows[n]), answer) for n, answer in others.items()])
        return self._result

    def _render_rows(self, rows: Numbers, first: Object, current: CurrentRows) -> None:
        """Renders the rows of one table, by event type."""
        types = self._rows.type[rows]
        for event_type in np.unique(types).tolist():
            template = self._template(first, event_type, current.columns)
            selected = types == event_type
            if template is None:
                self._render_singly(_select(rows, current, selected))
            else:
                bad = self._render_together(template, rows, current.values, selected)
                if bad.any():
                    self._render_singly(_select(rows, current, bad))

    def _template(
        self, obj: Object, event_type: int, names: tuple[str, ...]
    ) -> _QueryBackTemplate | None:
        """Returns the template of the rows with these columns; ``None`` if they are rendered singly."""
        try:
            published = self._renderer.read_columns(obj, event_type, (), names)
        except ValueProblem:  # XML forbids the name of a column
            return None
        key = (obj.schema, obj.table, event_type, names, tuple([place for place, _ in published]))
        if key not in self._templates:
            self._templates[key] = self._create_template(obj, event_type, published)
        return self._templates[key]

    def _create_template(
        self, obj: Object, event_type: int, published: Sequence[tuple[int, RenderedColumn]]
    ) -> _QueryBackTemplate | None:
        document = document_template(self._renderer, obj, event_type)
        meaning = self._renderer.meanings[event_type]
        columns: list[_Column] = []
        for place, column in published:
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
        if not reads:
            return
        rows = [read.row for read in reads]
        batch = self._rows.batch.take(pa.array(rows, pa.int64()))
        for change, read in zip(
            changes_of(batch, self._lane_rows[rows].tolist()), reads, strict=True
        ):
            poll = ObjectPoll((change.rank - 1) // self._poll_size, change.object, [change])
            prepared = self._renderer.prepare([change])
            rendered = self._renderer.render(poll, [change], prepared, read.answer)
            self._result.drafts += rendered.drafts
            self._result.decisions += rendered.decisions

    def _render_together(
        self,
        template: _QueryBackTemplate,
        rows: Numbers,
        values: Sequence[pa.Array],
        selected: Flags,
    ) -> Flags:
        """Renders selected rows; returns flags of those with a value that cannot be written."""
        bad = np.zeros(len(rows), np.bool_)
        contents: list[pa.StringArray] = []
        for column in template.columns:
            assert column.value.new is not None
            contents.append(_convert_values(values[column.place], column.value.new, bad))
        good = selected & ~bad
        if not good.all():
            contents = [column.filter(pa.array(good)) for column in contents]
        if good.any():
            self._write(template, rows[good], contents)
        return selected & bad

    def _write(
        self, template: _QueryBackTemplate, rows: Numbers, contents: list[pa.StringArray]
    ) -> None:
        if self._reduction is not None:
            self._write_differences(template, rows, contents, self._reduction)
            return
        pieces: list[str | pa.StringArray] = []
        for (_, value, null), column in zip(template.columns, contents, strict=True):
            if column.null_count:
                absent = column.is_null()
                pieces += [
                    pc.if_else(absent, _text_before(null), _text_before(value)),
                    pc.fill_null(column, ""),
                    pc.if_else(absent, _text_after(null), _text_after(value)),
                ]
            else:
                pieces += [_text_before(value), column, _text_after(value)]
        self._compose(template, rows, pieces)

    def _write_differences(
        self,
        template: _QueryBackTemplate,
        rows: Numbers,
        contents: list[pa.StringArray],
        reduction: Reduction,
    ) -> None:
        columns = [
            ColumnEdits.of(value, null, column.to_pylist())
            for (_, value, null), column in zip(template.columns, contents, strict=True)
        ]
        keys = self._fields.keys(rows).to_pylist()
        attributes = reduce_rows(reduction, keys, template.document, columns)
        kept = reduction.keep_changed(rows, attributes)
        if kept.any():
            texts = [text for text in attributes if text is not None]
            self._compose(template, rows[kept], [pa.array(texts)])

    def _compose(
        self, template: _QueryBackTemplate, rows: Numbers, pieces: list[str | pa.StringArray]
    ) -> None:
        """Composes documents from the pieces of their attributes."""
        keys = self._fields.keys(rows)
        document, count = template.document, len(rows)
        around = [document.head, escape_keys(keys), document.middle, *pieces, document.tail]
        texts = join_texts(around)
        operation, suffix = (
            pa.array([text] * count) for text in (document.operation, document.suffix)
        )
        groups = DocumentGroups(rows, np.arange(count))
        documents = self._fields.documents(groups, keys, operation, suffix, texts)
        self._result.documents.append(documents)


def _select(rows: Numbers, current: CurrentRows, selected: Flags) -> list[RowRead]:
    """Selects query-backs with their rows."""
    chosen = np.flatnonzero(selected)
    answers = (answer for _, answer in current.select(chosen).answers())
    return list(map(RowRead, rows[chosen].tolist(), answers))


def _convert_values(values: pa.Array, converter: Converter, bad: Flags) -> pa.StringArray:
    """Converts looked-up values to the contents of elements; null if there is no value.

    Several values of an attribute are joined with the tags between them.  Flags wrong values in ``bad``."""
    if not pa.types.is_list(values.type):
        return convert_column(values, converter, bad)
    lengths = pc.list_value_length(values).to_numpy(zero_copy_only=False)
    wrong = np.zeros(int(lengths.sum()), np.bool_)
    contents = convert_column(values.flatten(), converter, wrong)
    bad[np.repeat(np.arange(len(values)), lengths)[wrong]] = True
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    opening, _, closing = converter.around(_MARK).partition(_MARK)
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, contents), closing + opening)
    return pc.if_else(pa.array(lengths > 0), joined, pa.scalar(None, pa.string()))


_MARK = "\ue000"


def _text_before(attribute: AttributeTemplate) -> str:
    """The text before the new value."""
    return attribute.opening + attribute.before + attribute.between


def _text_after(attribute: AttributeTemplate) -> str:
    """The text after the new value."""
    return attribute.after + attribute.closing

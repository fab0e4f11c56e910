"""Pieces to documents: pieces are sorted, and tags open and close where neighbours differ.

A *piece* is what one field publishes: a value with the text around it, or what a query-back has read.  A
document is never built: its pieces, joined, are its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.arrays import (
    BoolArray,
    Int64Array,
    begins_island,
    booleans,
    ends_island,
    integers,
    island_bounds,
    last_mark,
    order_by,
)
from publisher.model.change import Object
from publisher.model.change_batches import objects_of
from publisher.model.distinct_values import lists_of
from publisher.model.document_schema import DOCUMENT_SCHEMA
from publisher.model.joined_texts import join_texts
from publisher.planning.fields import WHOLE_ROW, join_columns, take
from publisher.planning.names import PlannedTable
from publisher.planning.plan import DELETE, KEY_CHANGE, READS, ChunkPlan
from publisher.planning.reads import ReadTexts
from publisher.xds.document import DocumentOptions, Envelope
from publisher.xds.escape import ValueProblem, attribute_text, escape_attribute, escape_text
from publisher.xds.operations import OperationKind
from publisher.xds.value_edits import REMOVE_ALL

ADD, MODIFY, REMOVE, RENAME = range(4)
KINDS: tuple[OperationKind, ...] = ("add", "modify", "delete", "modify-association")
_UPDATE_FIELD = 2
_BYTES = 4 << 20
"""Approximate size of the texts that are joined together."""
_BYTES_OF_TAGS = 300
"""Bytes of a document around a value, roughly."""
_MARK = "\ue000"


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the documents of one source."""

    options: DocumentOptions
    envelope: Envelope

    @property
    def kinds(self) -> Int64Array:
        """The kind of operation of each event type."""
        read = (ADD, MODIFY) if self.options.insert_query_back == "add" else (MODIFY, MODIFY)
        return np.array([-1, ADD, MODIFY, MODIFY, REMOVE, *read, *read, RENAME])


class OperationNumbers(NamedTuple):
    """The operation and the document of each live field, named by the rows of their first changes.

    The arrays have an element for each field of the chunk."""

    operation: Int64Array
    document: Int64Array


class Pieces(NamedTuple):
    """Pieces in any order; ``texts`` are shared, all other arrays have an element for each piece."""

    field: Int64Array
    shown: Int64Array
    """The column whose attribute it belongs to; -1 for none."""
    text: Int64Array
    """Where its text stands in ``texts``, -1 for none: the new value of a field, or what was read."""
    is_inner: BoolArray
    """True if the text is all that the attribute, or the operation, contains."""
    texts: pa.StringArray

    def take(self, chosen: Int64Array | slice) -> Pieces:
        """Some of the pieces."""
        field, shown, text = (column[chosen] for column in self[:3])
        return Pieces(field, shown, text, self.is_inner[chosen], self.texts)


def group_operations(plan: ChunkPlan, form: Form) -> OperationNumbers:
    """Consecutive fields of one kind of operation are one operation, ``batch_size`` of them one document.

    A change that carries a whole row is an operation by itself."""
    fields, live = plan.fields, plan.live()
    kind, row = fields.type[live], fields.row[live]
    is_whole = WHOLE_ROW[kind]
    in_window = begins_island(fields.object[live], plan.window[live], plan.part[live])
    begins = in_window | begins_island(form.kinds[kind])
    begins |= is_whole & ((kind != KEY_CHANGE) | in_window)
    begins[1:] |= is_whole[:-1] & (kind[:-1] != KEY_CHANGE)
    # where changes of keys are published a delete ends its document: another object may get the key next
    begins_run = in_window.copy()
    if plan.rules.naming.joins_keys:
        begins_run[1:] |= kind[:-1] == DELETE
    number = np.cumsum(begins)
    number = number - number[last_mark(begins_run)]
    opens = begins & (number % form.options.batch_size == 0)
    result = OperationNumbers(np.full(len(fields), -1), np.full(len(fields), -1))
    result.operation[live] = row[last_mark(begins)]
    result.document[live] = row[last_mark(opens)]
    return result


def gather_pieces(plan: ChunkPlan, form: Form, read: ReadTexts) -> Pieces:
    """Gathers what the live fields publish: their logged values, what was read for them, or nothing."""
    fields, live = plan.fields, plan.live()
    of_read = READS[fields.type[live]]
    logged, bare = live[~of_read], live[of_read]
    if len(bare):
        bare = bare[~np.isin(bare, read.field)]
    renamed = logged[fields.type[logged] == KEY_CHANGE]
    has_new = booleans(plan.new.texts.is_valid())[logged]
    kind = form.kinds[fields.type[logged]]
    is_shown = (kind == MODIFY) | ((kind == ADD) & has_new)
    column, text = np.where(is_shown, fields.column[logged], -1), np.where(has_new, logged, -1)
    pieces = Pieces(logged, column, text, np.zeros(len(logged), np.bool_), plan.new.texts)
    if not len(read.field) and not len(bare) and not len(renamed):
        return pieces
    others = (
        (read.field, read.column, read.text),
        (bare, np.full(len(bare), -1), pa.nulls(len(bare), pa.string())),
        (renamed, np.full(len(renamed), -1), _new_associations(plan, renamed)),
    )
    own = plan.new.texts.slice(0, len(fields) if len(logged) else 0)
    texts = join_columns([own, *(text for _, _, text in others)])
    more = len(texts) - len(own)
    logged = np.flatnonzero(fields.type[logged] != KEY_CHANGE)
    pieces = pieces.take(logged)
    return Pieces(
        np.concatenate([pieces.field, *(field for field, _, _ in others)]),
        np.concatenate([pieces.shown, *(shown for _, shown, _ in others)]),
        np.concatenate([pieces.text, len(own) + np.arange(more)]),
        np.concatenate([pieces.is_inner, np.ones(more, np.bool_)]),
        texts,
    )


def _new_associations(plan: ChunkPlan, fields: Int64Array) -> pa.StringArray:
    """The new association of each change of a key; of records that report one change the first has it."""
    texts = []
    for row in plan.fields.row[fields].tolist():
        is_first = plan.first_rows.get(row, row) == row
        name = escape_text(plan.new_associations[row], "the key")
        texts.append(f"<association>{name}</association>" if is_first else None)
    return pa.array(texts, pa.string())


class Writer:
    """Writes the documents of a chunk."""

    def __init__(self, plan: ChunkPlan, form: Form, operations: OperationNumbers) -> None:
        self._plan = plan
        self._fields = plan.fields
        self._form = form
        self._operations = operations
        live = plan.live()
        pair = np.stack([operations.document[live], plan.fields.change[live]])
        pair = pair[:, order_by(*pair)]
        pair = pair[:, begins_island(*pair)]
        self._member_document, self._member_change = pair

    def documents(self, pieces: Pieces) -> Iterator[pa.RecordBatch]:
        """Writes batches of ``DOCUMENT_SCHEMA`` in the order of the first changes of documents."""
        if not len(pieces.field):
            return
        pieces = pieces.take(self._order(pieces))
        document = self._operations.document[pieces.field]
        sizes = _BYTES_OF_TAGS + np.append(integers(pc.binary_length(pieces.texts)), 0)[pieces.text]
        bounds = island_bounds(begins_island(document))
        part = (np.cumsum(sizes) - sizes)[bounds[:-1]] // _BYTES
        cuts = bounds[np.append(np.flatnonzero(begins_island(part)), len(part))]
        for start, end in pairwise(cuts.tolist()):
            yield self._write(pieces.take(slice(start, end)))

    def _order(self, pieces: Pieces) -> Int64Array:
        """Pieces by document, operation, first piece of the attribute, then as they were logged or read."""
        fields, field = self._fields, pieces.field
        operation, document = self._operations.operation[field], self._operations.document[field]
        order = order_by(document, operation, fields.row[field], fields.place[field])
        code = operation * (len(self._plan.rules.names.columns) + 1) + pieces.shown + 1
        code = np.where(pieces.shown < 0, -1 - np.arange(len(field)), code)[order]
        ordered = np.sort(code)
        if (ordered[1:] != ordered[:-1]).all():  # usually each attribute has one piece
            return order
        _, first, number = np.unique(code, return_index=True, return_inverse=True)
        return order[order_by(document[order], operation[order], first[number])]

    def elements(self, pieces: Pieces) -> tuple[Int64Array, pa.StringArray]:
        """The elements of each change by itself, in the order of publishing; also returns a field of each."""
        fields, field = self._fields, pieces.field
        if not len(field):
            return field, pa.array([], pa.string())
        order = order_by(
            self._operations.document[field],
            self._operations.operation[field],
            fields.row[field],
            fields.place[field],
        )
        pieces = pieces.take(order)
        begins = begins_island(fields.row[pieces.field])
        texts = self._join(pieces, begins | begins_island(pieces.shown), None, None)
        return pieces.field[begins], _join_islands(texts, begins)

    def _write(self, pieces: Pieces) -> pa.RecordBatch:
        fields, operations = self._fields, self._operations
        operation, document = operations.operation[pieces.field], operations.document[pieces.field]
        begins_document, begins_operation = begins_island(document), begins_island(operation)
        begins = begins_operation | begins_island(pieces.shown)
        text = self._join(pieces, begins, begins_operation, begins_document)
        first = pieces.field[begins_document]  # a field of the document's first operation
        change = np.searchsorted(fields.rows, document[begins_document])
        start = int(np.searchsorted(self._member_document, document[0], "left"))
        end = int(np.searchsorted(self._member_document, document[-1], "right"))
        members = self._member_change[start:end]
        bounds = island_bounds(begins_island(self._member_document[start:end]))
        sizes = np.diff(bounds)
        records = position_texts(self._plan, members)
        kinds = pa.array(KINDS).take(
            pa.array(self._form.kinds[fields.type[pieces.field[begins_operation]]])
        )
        of_document = island_bounds(begins_document[begins_operation])
        columns = {
            "poll": pa.array(self._plan.window_number[first]),
            "operation": pc.binary_join(lists_of(kinds, np.diff(of_document)), " "),
            "association": fields.objects.association.take(pa.array(fields.object[first])),
            "new_association": self._new_associations(change),
            "event_id": event_ids(self._plan, change, records.take(pa.array(bounds[:-1]))),
            "records": pc.binary_join(lists_of(records, sizes), ","),
            "text": _join_islands(text, begins_document).cast(pa.large_string()),
            "rows": lists_of(pa.array(fields.rows[members]), sizes),
        }
        others = [name for name in DOCUMENT_SCHEMA.names if name not in columns]
        columns |= {name: take(fields.batch[name], change) for name in others}
        return pa.RecordBatch.from_pydict(columns, schema=DOCUMENT_SCHEMA)

    def _new_associations(self, change: Int64Array) -> pa.StringArray:
        """The associations after changes of keys; null for other documents."""
        renamed = self._plan.new_associations
        if not renamed:
            return pa.nulls(len(change), pa.string())
        return pa.array(map(renamed.get, self._fields.rows[change].tolist()), pa.string())

    def _join(
        self,
        pieces: Pieces,
        begins: BoolArray,
        begins_operation: BoolArray | None,
        begins_document: BoolArray | None,
    ) -> pa.StringArray:
        """The text of each piece; ``begins`` flags the first piece of each attribute.

        Without operations only the elements of attributes are written."""
        fields, field = self._fields, pieces.field
        kind = fields.type[field]
        has_new = booleans(pieces.texts.is_valid())[pieces.text] & (pieces.text >= 0)
        has_old = (kind == _UPDATE_FIELD) & booleans(self._plan.old.texts.is_valid())[field]
        has_old &= ~pieces.is_inner
        # the values of a change share <add-value>, but each pair of old and new value has its own
        begins_values = begins | begins_island(fields.row[field]) | (kind == _UPDATE_FIELD)
        values = np.cumsum(begins_values)
        begins_add, ends_add = np.zeros((2, len(field)), np.bool_)
        begins_add[has_new] = begins_island(values[has_new])
        ends_add[has_new] = ends_island(begins_add[has_new])
        flags = [begins, ends_island(begins), begins_values, begins_add, ends_add, has_old, has_new]
        flags.append(pieces.is_inner)
        if begins_operation is not None and begins_document is not None:
            flags += [ends_island(begins_operation), ends_island(begins_document)]
        code = (pieces.shown + 1) * len(self._form.kinds) + kind
        for flag in flags:
            code = code * 2 + flag
        codes, number = np.unique(code, return_inverse=True)
        frames = [self._frame(each, len(flags)) for each in codes.tolist()]
        before, between, after = (
            texts[0] if len(codes) == 1 else pa.array(texts, pa.string()).take(pa.array(number))
            for texts in zip(*frames, strict=True)
        )
        old = _texts_at(self._plan.old.texts, np.where(has_old, field, -1)) if has_old.any() else ""
        new = _texts_at(pieces.texts, np.where(has_new, pieces.text, -1))
        parts = [before, old, between, new, after]
        if begins_operation is not None and begins_document is not None:
            parts.insert(0, self._heads(pieces, begins_operation, begins_document))
        return join_texts(parts)

    def _frame(self, code: int, count: int) -> tuple[str, str, str]:
        """The text before the old value, between both values, and after the new value."""
        flags = [bool(code >> bit & 1) for bit in reversed(range(count))]
        begins, ends, begins_values, begins_add, ends_add, has_old, has_new, is_inner = flags[:8]
        shown, event_type = divmod(code >> count, len(self._form.kinds))
        kind = int(self._form.kinds[event_type])
        before = between = after = ""
        if shown:
            column = self._plan.rules.names.columns[shown - 1].rendered
            assert column is not None
            before = f'<{KINDS[kind]}-attr attr-name="{column.name}">' if begins else ""
            opening, _, closing = column.convert.around(_MARK).partition(_MARK)
            if is_inner:
                opening = closing = ""
            elif has_old:
                before += f"<remove-value>{opening}"
                between = f"{closing}</remove-value>"
            elif kind == MODIFY and event_type != _UPDATE_FIELD and begins_values:
                between = REMOVE_ALL
            if has_new:
                wraps = kind == MODIFY and not is_inner
                between += ("<add-value>" if wraps and begins_add else "") + opening
                after = closing + ("</add-value>" if wraps and ends_add else "")
            after += f"</{KINDS[kind]}-attr>" if ends else ""
        if count > 8 and flags[8]:
            after += f"</{KINDS[kind]}>"
        if count > 8 and flags[9]:
            after += self._form.envelope.tail
        return before, between, after

    def _heads(
        self, pieces: Pieces, begins_operation: BoolArray, begins_document: BoolArray
    ) -> pa.StringArray:
        """The beginning of each operation, up to its association; empty for its other pieces."""
        fields, first = self._fields, pieces.field[begins_operation]
        kind, obj = self._form.kinds[fields.type[first]], fields.object[first]
        heads = ("", self._form.envelope.head)
        starts = [
            f"{head}<{name}" + ("" if name == KINDS[RENAME] else f' class-name="{class_name}"')
            for class_name in map(_class_name, self._plan.rules.names.tables)
            for head in heads
            for name in KINDS
        ]
        number = (fields.objects.table[obj] * 2 + begins_document[begins_operation]) * len(KINDS)
        parts = [pa.array(starts, pa.string()).take(pa.array(number + kind))]
        if self._form.options.event_id:
            change = np.searchsorted(fields.rows, self._operations.operation[first])
            positions = position_texts(self._plan, change)
            ids = map(attribute_text, event_ids(self._plan, change, positions).to_pylist())
            parts.append(pa.array([f' event-id="{each}"' for each in ids], pa.string()))
        names = fields.objects.xml.take(pa.array(obj))
        parts += ["><association>", names, "</association>"]
        place = np.where(begins_operation, np.cumsum(begins_operation) - 1, -1)
        return _texts_at(join_texts(parts), place)


def position_texts(plan: ChunkPlan, changes: Int64Array) -> pa.StringArray:
    """The positions of changes in the notation of their source."""
    batch = plan.fields.batch
    if plan.rules.windows is not None and not pc.any(pc.not_equal(batch["part"], "")).as_py():
        return batch["high"].take(pa.array(changes)).cast(pa.string())  # the record id
    return pa.array(
        map(plan.rules.naming.position_text, plan.fields.positions(changes)), pa.string()
    )


def event_ids(plan: ChunkPlan, changes: Int64Array, positions: pa.StringArray) -> pa.StringArray:
    """The event ids of documents and operations that begin with some changes, given with their positions."""
    naming, batch = plan.rules.naming, plan.fields.batch
    prefix: str | pa.StringArray = naming.origin.prefix(naming.source)
    if naming.origin.by_object:
        objects = objects_of(batch.select(list(Object._fields)).take(pa.array(changes)))
        prefix = pa.array(
            [naming.origin.prefix_of(naming.source, obj) for obj in objects], pa.string()
        )
    ids = pc.binary_join_element_wise(prefix, ":", positions, "")
    ordinal = batch["ordinal"].take(pa.array(changes))
    if not pc.any(pc.not_equal(ordinal, 0)).as_py():
        return ids
    texts = zip(ids.to_pylist(), ordinal.to_pylist(), strict=True)
    return pa.array([f"{text}.{number}" if number else text for text, number in texts], pa.string())


def _class_name(table: PlannedTable) -> str:
    try:
        return escape_attribute(table.name)
    except ValueProblem:  # its changes are rejected
        return ""


def _texts_at(texts: pa.StringArray, places: Int64Array) -> pa.StringArray:
    """The texts at some places; empty for -1."""
    return pc.fill_null(take(texts, places), "")


def _join_islands(texts: pa.StringArray, begins: BoolArray) -> pa.StringArray:
    """Joins the texts of each island: they are neighbours in memory, so that only the bounds change."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1)[island_bounds(begins)]
    return pa.StringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), data)

"""The current rows that query-backs publish: which objects to look up, and the texts of what is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.arrays import (
    NO_ROWS,
    Int64Array,
    begins_island,
    booleans,
    ends_island,
    integers,
    partners,
)
from publisher.model.change import Object, Reason
from publisher.model.change_batches import batch_of_objects, objects_of
from publisher.model.distinct_values import lists_of
from publisher.model.joined_texts import join_texts
from publisher.planning.fields import flag_types, join_columns, take
from publisher.planning.names import key_columns
from publisher.planning.plan import READS, ROW_READS, ChunkPlan
from publisher.planning.query_back import Answers, CurrentRows, NamedColumns, RefusedLookup
from publisher.planning.rendered_columns import RenderedColumn
from publisher.planning.values import Contents, convert_column
from publisher.xds.escape import ValueProblem
from publisher.xds.operations import Part, add_attr, cut_attribute, replace_attr
from publisher.xds.values import Converter

_INSERTS = flag_types(5, 7)
_MARK = "\ue000"


class ReadTexts(NamedTuple):
    """What query-backs publish, piece by piece: fields, columns and texts of the same length.

    A text is what the element of the column contains; with column -1 it has the elements of all attributes of
    a row, or none."""

    field: Int64Array
    column: Int64Array
    text: pa.StringArray


NOTHING_READ = ReadTexts(NO_ROWS, NO_ROWS, pa.array([], pa.string()))


class Questions(NamedTuple):
    """The look-ups of a chunk: a question for each object, window and part that has a query-back."""

    field: Int64Array
    """The fields of query-backs, sorted."""
    question: Int64Array
    """The question of each of these fields."""
    object: Int64Array
    window_number: Int64Array
    asked: Int64Array
    """For each question the place of its row in ``rows``."""
    rows: pa.RecordBatch
    """Schema, table and key of each row to read, under the key that it has after all changes of its key."""
    named: NamedColumns
    """The columns that suffice, by the place of a row in ``rows``."""


def ask(plan: ChunkPlan) -> Questions | None:
    """Returns what query-backs must read; ``None`` if there are none."""
    fields, live = plan.fields, plan.live()
    reads = READS[fields.type[live]]
    if not reads.any():
        return None
    begins = begins_island(fields.object[live], plan.window[live], plan.part[live])
    group = (np.cumsum(begins) - 1)[reads]
    asks = begins_island(group)
    firsts, lasts = (np.flatnonzero(flags)[group[asks]] for flags in (begins, ends_island(begins)))
    objects = fields.object[live[firsts]]
    is_first = begins_island(objects)
    first = fields.change[live[firsts[is_first]]]
    batch = take(fields.batch.select(list(Object._fields)), first)
    batch, asked = _follow_keys(plan, batch, np.cumsum(is_first) - 1, fields.row[live[lasts]])
    order = np.argsort(live[reads], kind="stable")
    question = (np.cumsum(asks) - 1)[order]
    field = live[reads][order]
    named = _named_columns(plan, field, asked[question])
    return Questions(
        field, question, objects, plan.window_number[live[firsts]], asked, batch, named
    )


def _follow_keys(
    plan: ChunkPlan, batch: pa.RecordBatch, asked: Int64Array, last_rows: Int64Array
) -> tuple[pa.RecordBatch, Int64Array]:
    """Objects whose keys change later are read under the key that they have in the end."""
    history = plan.rules.history
    old_keys = {obj.key for obj in history.old_keys}
    if not old_keys:
        return batch, asked
    is_changed = booleans(pc.is_in(batch["key"], pa.array(old_keys, pa.string())))
    questions = np.flatnonzero(is_changed[asked]).tolist()
    added: dict[Object, int] = {}
    for number in questions:
        (obj,) = objects_of(batch.slice(int(asked[number]), 1))
        (last,) = plan.fields.changes(last_rows[number : number + 1])
        row = history.follow(obj, last)
        if row != obj:
            asked[number] = added.setdefault(row, batch.num_rows + len(added))
    if added:
        batch = pa.concat_batches([batch, batch_of_objects(list(added))])
    return batch, asked


def _named_columns(plan: ChunkPlan, field: Int64Array, row: Int64Array) -> NamedColumns:
    """The columns that suffice for rows that only query-backs of columns read."""
    fields, columns = plan.fields, plan.rules.names.columns
    whole = ROW_READS[fields.type[field]]
    only = ~np.isin(row, row[whole])
    named: dict[int, set[str]] = {}
    for place, column in zip(row[only].tolist(), fields.column[field[only]].tolist(), strict=True):
        named.setdefault(place, set()).update([columns[column].name] if column >= 0 else [])
    return named


def read(plan: ChunkPlan, questions: Questions, answers: Answers, adds: bool) -> ReadTexts:
    """Gives reasons to query-backs without a row, and writes the texts of the others.

    ``adds``: types 5 and 7 give an ``<add>``."""
    asked = questions.asked[questions.question]
    _drop_unanswered(plan, questions.field, asked, answers.others)
    parts = [NOTHING_READ]
    for rows in answers.rows:
        row = partners(asked, rows.places)
        field, row = questions.field[row >= 0], row[row >= 0]
        kind = plan.fields.type[field]
        is_add = _INSERTS[kind] & adds
        column = np.where(ROW_READS[kind], -1, plan.fields.column[field])
        _, group = np.unique(column * 2 + is_add, return_inverse=True)
        for number in range(int(group.max(initial=-1)) + 1):
            chosen = np.flatnonzero(group == number)
            part = add_attr if is_add[chosen[0]] else replace_attr
            parts += _write(plan, rows, field[chosen], row[chosen], part)
    field, column = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    text = join_columns([part.text for part in parts])
    empty = ~np.isin(questions.field, field)
    if adds:
        empty &= ~_INSERTS[plan.fields.type[questions.field]]
    plan.drop(questions.field[empty], Reason.NOTHING_TO_PUBLISH)
    is_live = plan.reason[field] == 0
    if is_live.all():
        return ReadTexts(field, column, text)
    return ReadTexts(field[is_live], column[is_live], text.filter(pa.array(is_live)))


def _drop_unanswered(
    plan: ChunkPlan,
    field: Int64Array,
    asked: Int64Array,
    others: Mapping[int, RefusedLookup | None],
) -> None:
    if not others:
        return
    gone = [place for place, answer in others.items() if answer is None]
    plan.drop(field[np.isin(asked, gone)], Reason.ROW_GONE)
    pairs = zip(plan.fields.row[field].tolist(), asked.tolist(), strict=True)
    found = ((row, others.get(place)) for row, place in pairs)
    plan.reject({row: answer for row, answer in found if answer is not None})


def _write(
    plan: ChunkPlan, rows: CurrentRows, field: Int64Array, row: Int64Array, part: Part
) -> list[ReadTexts]:
    """Writes what query-backs of one kind publish of rows with the same columns.

    ``row`` has the row of each field, ``part`` renders an attribute."""
    fields, names, first = plan.fields, plan.rules.names, int(field[0])
    obj = int(fields.object[first])
    of_row = bool(ROW_READS[fields.type[first]])
    named = None if of_row else names.columns[fields.column[first]].name
    key = key_columns(fields.objects.key[obj].as_py())
    table = int(fields.objects.table[obj])
    try:
        columns = names.read_columns(table, rows.columns, named=named, key=key)
    except ValueProblem as problem:
        every = fields.row[field].tolist()
        plan.reject(dict.fromkeys(every, (problem.reason, problem.detail)))
        return []
    problems: dict[int, tuple[Reason, str]] = {}
    texts: list[tuple[int, list[str | pa.StringArray]]] = []
    for place, number in columns:
        column = names.columns[number].rendered
        assert column is not None
        contents = _contents(take(rows.values[place], row), column.convert)
        for at, found in contents.problems.items():
            problems.setdefault(int(fields.row[field[at]]), (found.reason, found.detail))
        texts.append((number, _around(contents.texts, column, part, with_tags=of_row)))
    plan.reject(problems)
    if of_row and texts:
        texts = [(-1, [piece for _, pieces in texts for piece in pieces])]
    read = ((number, join_texts(pieces)) for number, pieces in texts)
    return [
        ReadTexts(field, np.where(booleans(pc.equal(text, "")), -1, number), text)
        for number, text in read
    ]


def _around(
    contents: pa.StringArray, column: RenderedColumn, part: Part, *, with_tags: bool
) -> list[str | pa.StringArray]:
    """The pieces of an attribute around the contents of its values, with its own tags or without."""
    value = part(column.name, None, column.convert.around(_MARK))
    empty = part(column.name, None, None)
    if not with_tags:
        value, empty = (cut_attribute(text).inside if text else "" for text in (value, empty))
    before, _, after = value.partition(_MARK)
    if not contents.null_count:
        return [before, contents, after]
    absent = contents.is_null()
    return [
        pc.if_else(absent, empty, before),
        pc.fill_null(contents, ""),
        pc.if_else(absent, "", after),
    ]


def _contents(values: pa.Array, converter: Converter) -> Contents:
    """The contents of looked-up values; several values of an attribute are joined with the tags between."""
    if not pa.types.is_list(values.type):
        return convert_column(values, converter)
    lengths = integers(pc.list_value_length(values))
    flat = convert_column(values.flatten(), converter)
    of_value = np.repeat(np.arange(len(values)), lengths)
    opening, _, closing = converter.around(_MARK).partition(_MARK)
    joined = pc.binary_join(lists_of(flat.texts, lengths), closing + opening)
    texts = pc.if_else(pa.array(lengths > 0), joined, pa.scalar(None, pa.string()))
    problems = {int(of_value[at]): problem for at, problem in reversed(flat.problems.items())}
    return Contents(texts, problems)

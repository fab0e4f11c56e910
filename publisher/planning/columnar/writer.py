"""Documents of plain changes, written by the column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import RECORD_SCHEMA, Object
from publisher.model.document_batches import DOCUMENT_SCHEMA, Documents
from publisher.planning.columnar.eligibility import DELETE
from publisher.planning.columnar.rows import Flags, Numbers, Rows, flags_of, numbers_of
from publisher.planning.columnar.templates import Shape, Shapes
from publisher.planning.columnar.values import Contents
from publisher.planning.polls import PollOptions
from publisher.planning.renderer import Renderer
from publisher.xds.escape import VERBATIM, escape_text

_KIND = np.array([-1, 0, 1, 1, 2, -1, -1, -1, -1])
"""By event type: the same number for the same kind of operation."""
_OF_CHANGES = [name for name in DOCUMENT_SCHEMA.names if name in RECORD_SCHEMA.names]
"""What a document has from its first change as it is."""
_BYTES = 16 << 20
"""Values whose documents are made at once: they may be long."""


class Groups(NamedTuple):
    """The changes of documents: their rows, those of a document together, documents in rank order.

    ``starts`` are the places in ``rows`` where documents begin.
    """

    rows: Numbers
    starts: Numbers

    @classmethod
    def of(cls, rows: Rows, left: Flags, poll_size: int) -> Groups:
        """One document for each operation of the rows that are not left."""
        order = rows.order[~left[rows.order]]
        obj, rank, kind = rows.object[order], rows.rank[order], _KIND[rows.type[order]]
        poll = (rank - 1) // poll_size
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (obj[1:] != obj[:-1]) | (poll[1:] != poll[:-1]) | (kind[1:] != kind[:-1])
        begins |= kind == _KIND[DELETE]
        document = np.cumsum(begins) - 1
        by_rank = np.argsort(rank[begins][document], kind="stable")
        return cls(order[by_rank], np.flatnonzero(begins[by_rank]))

    def parts(self, rows: Rows) -> Iterator[Groups]:
        """The documents in parts that are not too much at once."""
        if not len(self.starts):
            return
        size = np.zeros(len(self.rows), np.int64)
        for values in (rows.old, rows.new):
            size += numbers_of(pc.fill_null(pc.binary_length(values), 0))[self.rows]
        part = (np.cumsum(size) - size)[self.starts] // _BYTES
        cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(self.starts)]
        ends = np.append(self.starts, len(self.rows))
        for first, last in pairwise(cuts):
            starts = self.starts[first:last]
            yield Groups(self.rows[ends[first] : ends[last]], starts - starts[0])


class Envelopes:
    """What documents have besides their text."""

    def __init__(
        self, rows: Rows, lane_rows: Numbers, polls: PollOptions, renderer: Renderer
    ) -> None:
        self._rows = rows
        self._lane_rows = lane_rows
        self._poll_size = polls.poll_size
        self._renderer = renderer

    def documents(
        self,
        groups: Groups,
        keys: pa.StringArray,
        operation: pa.StringArray,
        suffix: pa.StringArray,
        texts: pa.StringArray,
    ) -> Documents:
        """Documents of these changes; an element of the arrays for each."""
        firsts = groups.rows[groups.starts]
        heads = self._rows.batch.select(_OF_CHANGES).take(pa.array(firsts))
        records = self._rows.batch.column("high").take(pa.array(groups.rows)).cast(pa.string())
        ids = records.take(pa.array(groups.starts))
        columns = {
            "poll": pa.array((self._rows.rank[firsts] - 1) // self._poll_size),
            "operation": operation,
            "association": pc.binary_join_element_wise(keys, suffix, ""),
            "event_id": pc.binary_join_element_wise(f"{self._renderer.source}:", ids, ""),
            "records": pc.binary_join(_lists(groups, records), ","),
            "text": texts.cast(pa.large_string()),
            "rows": _lists(groups, pa.array(self._lane_rows[groups.rows])),
        }
        names = DOCUMENT_SCHEMA.names
        arrays = [columns[name] if name in columns else heads.column(name) for name in names]
        return Documents(pa.RecordBatch.from_arrays(arrays, schema=DOCUMENT_SCHEMA))

    def keys(self, firsts: Numbers) -> pa.StringArray:
        """The association's part for the key, of the documents that begin with these rows."""
        heads = self._rows.batch.select(list(Object._fields)).take(pa.array(firsts))

        def ordered(place: int) -> str:
            return self._renderer.key_text(Object(**heads.slice(place, 1).to_pylist()[0]))

        keys = heads.column("key")
        return _replaced(keys, flags_of(pc.match_substring(keys, "+")), ordered)


class Writer:
    """Makes documents of changes whose values stand in the log."""

    def __init__(
        self, envelopes: Envelopes, shapes: Shapes, contents: tuple[Contents, Contents]
    ) -> None:
        self._envelopes = envelopes
        self._shapes = shapes
        self._contents = contents

    def documents(self, groups: Groups) -> Documents:
        """The documents of these changes."""
        firsts = groups.rows[groups.starts]
        keys = self._envelopes.keys(firsts)
        operation, suffix = self._of_shapes(firsts, "operation"), self._of_shapes(firsts, "suffix")
        return self._envelopes.documents(groups, keys, operation, suffix, self._texts(groups, keys))

    def _of_shapes(self, rows: Numbers, name: str) -> pa.StringArray:
        """A part of the frame of each row."""
        texts = pa.array([getattr(shape.frame, name) for shape in self._shapes.shapes])
        return texts.take(pa.array(self._shapes.of_row[rows]))

    def _texts(self, groups: Groups, keys: pa.StringArray) -> pa.StringArray:
        """The text of each document, put together row by row: those of one document touch each other
        in memory, so that only the places where documents begin are to be told."""
        count = len(groups.rows)
        first, last = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        first[groups.starts] = True
        last[np.append(groups.starts[1:], count) - 1] = True
        number = np.cumsum(first) - 1
        rows, begins, ends = self._by_attribute(groups.rows, number)
        shape = self._shapes.of_row[rows]
        begins, ends = np.where(first, 2, begins), np.where(last, 2, ends)
        old, new = self._contents
        joined = pc.binary_join_element_wise(
            self._around(shape, first.astype(np.int64), (_nothing, _head)),
            pc.fill_null(shown(keys).take(pa.array(number, mask=~first)), ""),
            self._around(shape, begins, (_before, _before_of_attribute, _before_of_all)),
            old.at(rows),
            self._around(shape, None, (_between,)),
            new.at(rows),
            self._around(shape, ends, (_after, _after_of_attribute, _after_of_all)),
            "",
        )
        _, offsets, data = joined.buffers()
        starts = np.append(
            np.frombuffer(offsets, np.int32, count)[groups.starts],
            np.frombuffer(offsets, np.int32, count + 1)[-1:],
        )
        return pa.StringArray.from_buffers(len(groups.starts), pa.py_buffer(starts), data)

    def _by_attribute(self, rows: Numbers, document: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """The rows of each document with those of one attribute together, in the order of its first one,
        and for each whether it is the first and the last one of its attribute.

        ``document`` is the number of each row's document.  Rows that write no attribute have no tags."""
        attribute = self._shapes.attributes[self._shapes.of_row[rows]]
        code = document * (int(attribute.max(initial=0)) + 1) + attribute
        if np.all(np.diff(np.sort(code, kind="stable"))):  # fast: most are in order already
            ones = np.ones(len(code), np.int64)
            return rows, ones, ones
        _, first_place, inverse = np.unique(code, return_index=True, return_inverse=True)
        order = np.argsort(first_place[inverse], kind="stable")
        code = code[order]
        differs = (code[1:] != code[:-1]).astype(np.int64)
        return rows[order], np.append(1, differs), np.append(differs, 1)

    def _around(
        self, shape: Numbers, state: Numbers | None, texts: Sequence[Callable[[Shape], str]]
    ) -> pa.StringArray:
        """A text of each row's shape: the one of ``texts`` that ``state`` numbers."""
        shapes = self._shapes.shapes
        every = pa.array([text(one) for text in texts for one in shapes])
        place = shape if state is None else shape + state * len(shapes)
        return every.take(pa.array(place))


def _nothing(_shape: Shape) -> str:
    return ""


def _head(shape: Shape) -> str:
    return shape.frame.head


def _before(shape: Shape) -> str:
    return shape.attribute.before


def _before_of_attribute(shape: Shape) -> str:
    return shape.attribute.opening + shape.attribute.before


def _before_of_all(shape: Shape) -> str:
    return shape.frame.middle + _before_of_attribute(shape)


def _between(shape: Shape) -> str:
    return shape.attribute.between


def _after(shape: Shape) -> str:
    return shape.attribute.after


def _after_of_attribute(shape: Shape) -> str:
    return shape.attribute.after + shape.attribute.closing


def _after_of_all(shape: Shape) -> str:
    return _after_of_attribute(shape) + shape.frame.tail


def shown(keys: pa.StringArray) -> pa.StringArray:
    """The keys as they stand in XML."""

    def escaped(place: int) -> str:
        return escape_text(keys[place].as_py(), "the key")

    return _replaced(keys, ~flags_of(pc.match_substring_regex(keys, VERBATIM)), escaped)


def _lists(groups: Groups, values: pa.Array) -> pa.ListArray:
    """The values of each document; one for each row is given."""
    offsets = np.append(groups.starts, len(groups.rows)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _replaced(texts: pa.StringArray, where: Flags, by: Callable[[int], str]) -> pa.StringArray:
    """Texts, with another one in some places."""
    if not where.any():
        return texts
    others = [by(place) for place in np.flatnonzero(where).tolist()]
    return pc.replace_with_mask(texts, where, pa.array(others, pa.string()))

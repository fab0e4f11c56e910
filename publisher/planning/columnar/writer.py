"""Composes documents by the column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Object
from publisher.model.document_batches import DOCUMENT_SCHEMA, Documents
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.planning.columnar.characters import is_verbatim
from publisher.planning.columnar.eligibility import DELETE
from publisher.planning.columnar.rows import ChangeColumns, Flags, Numbers, flags_of, numbers_of
from publisher.planning.columnar.templates import ChangeTemplate, ChangeTemplates
from publisher.planning.columnar.values import ValueContents
from publisher.planning.polls import PollOptions
from publisher.planning.renderer import Renderer
from publisher.xds.escape import escape_text

_KIND = np.array([-1, 0, 1, 1, 2, -1, -1, -1, -1])
"""Number of the operation kind of each event type; -1 for query-backs."""
_OF_CHANGES = [name for name in DOCUMENT_SCHEMA.names if name in RECORD_SCHEMA.names]
"""Fields that a document copies from its first change."""
_BYTES = 4 << 20
"""Maximum size of the documents that are composed together, roughly; more if one document is larger."""
_BYTES_OF_TAGS = 300
"""Bytes of a document around the value of a change, roughly."""


class DocumentGroups(NamedTuple):
    """The rows of documents in rank order; the rows of one document are neighbours.

    ``starts`` are the indexes in ``rows`` where documents begin.
    """

    rows: Numbers
    starts: Numbers

    @classmethod
    def of(cls, rows: ChangeColumns, excluded: Flags, poll_size: int) -> DocumentGroups:
        """Groups the rows that are not excluded by operation; each operation is a document."""
        order = rows.order[~excluded[rows.order]]
        obj, rank, kind = rows.object[order], rows.rank[order], _KIND[rows.type[order]]
        poll = (rank - 1) // poll_size
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (obj[1:] != obj[:-1]) | (poll[1:] != poll[:-1]) | (kind[1:] != kind[:-1])
        begins |= kind == _KIND[DELETE]
        document = np.cumsum(begins) - 1
        by_rank = np.argsort(rank[begins][document], kind="stable")
        return cls(order[by_rank], np.flatnonzero(begins[by_rank]))

    @property
    def documents(self) -> Numbers:
        """The number of the document of each row."""
        lengths = np.diff(np.append(self.starts, len(self.rows)))
        return np.repeat(np.arange(len(self.starts)), lengths)

    def select(self, kept: Flags) -> DocumentGroups:
        """The documents with the rows that are kept."""
        document = self.documents[kept]
        begins = np.append(True, document[1:] != document[:-1])[: len(document)]
        return DocumentGroups(self.rows[kept], np.flatnonzero(begins))

    def parts(self, rows: ChangeColumns) -> Iterator[DocumentGroups]:
        """Splits the documents into parts of limited size."""
        if not len(self.starts):
            return
        size = np.full(len(self.rows), _BYTES_OF_TAGS, np.int64)
        for values in (rows.old, rows.new):
            size += numbers_of(pc.fill_null(pc.binary_length(values), 0))[self.rows]
        part = (np.cumsum(size) - size)[self.starts] // _BYTES
        cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(self.starts)]
        ends = np.append(self.starts, len(self.rows))
        for first, last in pairwise(cuts):
            starts = self.starts[first:last]
            yield DocumentGroups(self.rows[ends[first] : ends[last]], starts - starts[0])


class DocumentFields:
    """Composes the fields of documents besides their text."""

    def __init__(
        self, rows: ChangeColumns, lane_rows: Numbers, polls: PollOptions, renderer: Renderer
    ) -> None:
        self._rows = rows
        self._lane_rows = lane_rows
        self._poll_size = polls.poll_size
        self._renderer = renderer

    def documents(
        self,
        groups: DocumentGroups,
        keys: pa.StringArray,
        operation: pa.StringArray,
        suffix: pa.StringArray,
        texts: pa.StringArray,
    ) -> Documents:
        """Builds the batch of documents; the arrays have an element for each of them."""
        firsts = groups.rows[groups.starts]
        heads = self._rows.batch.select(_OF_CHANGES).take(pa.array(firsts))
        records = self._rows.batch.column("high").take(pa.array(groups.rows)).cast(pa.string())
        ids = records.take(pa.array(groups.starts))
        columns = {
            "poll": pa.array((self._rows.rank[firsts] - 1) // self._poll_size),
            "operation": operation,
            "association": pc.binary_join_element_wise(keys, suffix, ""),
            "new_association": pa.nulls(len(firsts), pa.string()),
            "event_id": pc.binary_join_element_wise(self._renderer.id_prefix, ids, ""),
            "records": pc.binary_join(_lists(groups, records), ","),
            "text": texts.cast(pa.large_string()),
            "rows": _lists(groups, pa.array(self._lane_rows[groups.rows])),
        }
        names = DOCUMENT_SCHEMA.names
        arrays = [columns[name] if name in columns else heads.column(name) for name in names]
        return Documents(pa.RecordBatch.from_arrays(arrays, schema=DOCUMENT_SCHEMA))

    def keys(self, firsts: Numbers) -> pa.StringArray:
        """The key parts of the associations of documents that begin with these rows."""
        heads = self._rows.batch.select(list(Object._fields)).take(pa.array(firsts))

        def key_text(row: int) -> str:
            return self._renderer.key_text(Object(**heads.slice(row, 1).to_pylist()[0]))

        keys = heads.column("key")
        return _replace(keys, flags_of(pc.match_substring(keys, "+")), key_text)


class DocumentWriter:
    """Composes documents of changes with logged values."""

    def __init__(
        self,
        fields: DocumentFields,
        templates: ChangeTemplates,
        contents: tuple[ValueContents, ValueContents],
    ) -> None:
        self._fields = fields
        self._templates = templates
        self._contents = contents

    def documents(self, groups: DocumentGroups) -> Documents:
        """Composes the documents of these groups."""
        return self._compose(groups, self._texts)

    def _compose(
        self,
        groups: DocumentGroups,
        texts: Callable[[DocumentGroups, pa.StringArray], pa.StringArray],
    ) -> Documents:
        """Composes documents; ``texts`` gives their texts from the key parts of their associations."""
        firsts = groups.rows[groups.starts]
        keys = self._fields.keys(firsts)
        operation, suffix = (self._document_field(firsts, name) for name in ("operation", "suffix"))
        return self._fields.documents(groups, keys, operation, suffix, texts(groups, keys))

    def _document_field(self, rows: Numbers, name: str) -> pa.StringArray:
        """One field of each row's document template."""
        texts = pa.array(
            [getattr(template.document, name) for template in self._templates.templates]
        )
        return texts.take(pa.array(self._templates.of_row[rows]))

    def _texts(self, groups: DocumentGroups, keys: pa.StringArray) -> pa.StringArray:
        """Composes the texts of documents row by row.

        The texts of the rows of one document are adjacent in memory, so that only the offsets between
        documents remain.
        """
        count = len(groups.rows)
        first, last = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        first[groups.starts] = True
        last[np.append(groups.starts[1:], count) - 1] = True
        number = np.cumsum(first) - 1
        rows, begins, ends = self._by_attribute(groups.rows, number)
        template = self._templates.of_row[rows]
        begins, ends = np.where(first, 2, begins), np.where(last, 2, ends)
        old, new = self._contents
        joined = pc.binary_join_element_wise(
            self._around(template, first.astype(np.int64), (_nothing, _head)),
            pc.fill_null(escape_keys(keys).take(pa.array(number, mask=~first)), ""),
            self._around(template, begins, (_before, _before_of_attribute, _before_of_all)),
            old.at(rows),
            self._around(template, None, (_between,)),
            new.at(rows),
            self._around(template, ends, (_after, _after_of_attribute, _after_of_all)),
            "",
        )
        _, offsets, data = joined.buffers()
        starts = np.append(
            np.frombuffer(offsets, np.int32, count)[groups.starts],
            np.frombuffer(offsets, np.int32, count + 1)[-1:],
        )
        return pa.StringArray.from_buffers(len(groups.starts), pa.py_buffer(starts), data)

    def _by_attribute(self, rows: Numbers, document: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Sorts the rows of each document so that the rows of one attribute are neighbours.

        Attributes stay in the order of their first rows.  Returns the rows, then 1 for each row that is
        the first of its attribute (else 0), then 1 for each row that is the last.  ``document`` is the
        number of each row's document."""
        attribute = self._templates.attributes[self._templates.of_row[rows]]
        code = document * (int(attribute.max(initial=0)) + 1) + attribute
        # fast path: usually each attribute has one row
        if np.all(np.diff(np.sort(code, kind="stable"))):
            ones = np.ones(len(code), np.int64)
            return rows, ones, ones
        _, first_place, inverse = np.unique(code, return_index=True, return_inverse=True)
        order = np.argsort(first_place[inverse], kind="stable")
        code = code[order]
        differs = (code[1:] != code[:-1]).astype(np.int64)
        return rows[order], np.append(1, differs), np.append(differs, 1)

    def _around(
        self,
        of_row: Numbers,
        state: Numbers | None,
        texts: Sequence[Callable[[ChangeTemplate], str]],
    ) -> pa.StringArray:
        """Selects one text of each row's template: the element of ``texts`` at the index ``state``."""
        templates = self._templates.templates
        alternatives = pa.array([text(template) for text in texts for template in templates])
        index = of_row if state is None else of_row + state * len(templates)
        return alternatives.take(pa.array(index))


def _nothing(_template: ChangeTemplate) -> str:
    return ""


def _head(template: ChangeTemplate) -> str:
    return template.document.head


def _before(template: ChangeTemplate) -> str:
    return template.attribute.before


def _before_of_attribute(template: ChangeTemplate) -> str:
    return template.attribute.opening + template.attribute.before


def _before_of_all(template: ChangeTemplate) -> str:
    return template.document.middle + _before_of_attribute(template)


def _between(template: ChangeTemplate) -> str:
    return template.attribute.between


def _after(template: ChangeTemplate) -> str:
    return template.attribute.after


def _after_of_attribute(template: ChangeTemplate) -> str:
    return template.attribute.after + template.attribute.closing


def _after_of_all(template: ChangeTemplate) -> str:
    return _after_of_attribute(template) + template.document.tail


def escape_keys(keys: pa.StringArray) -> pa.StringArray:
    """Escapes keys for XML."""

    def escape(row: int) -> str:
        return escape_text(keys[row].as_py(), "the key")

    return _replace(keys, ~is_verbatim(keys), escape)


def _lists(groups: DocumentGroups, values: pa.Array) -> pa.ListArray:
    """Groups the values of rows by document."""
    offsets = np.append(groups.starts, len(groups.rows)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _replace(texts: pa.StringArray, where: Flags, by: Callable[[int], str]) -> pa.StringArray:
    """Replaces the flagged texts."""
    if not where.any():
        return texts
    replacements = [by(row) for row in np.flatnonzero(where).tolist()]
    return pc.replace_with_mask(texts, where, pa.array(replacements, pa.string()))

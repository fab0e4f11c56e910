"""Reads many documents of one form at once, by the column.

Documents have one form if they differ only in event ids, targets of references, associations and values.
One document of each form is read by ``read_plain``.  In the others exactly these parts are checked, so that
each is a document that ``read_plain`` reads, too.  Documents with entities or control characters, and those
of rare forms, are left to the other readers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.sources.columns.row_images import Mask, Places
from publisher.verify.operation_columns import OperationCollector, OperationRows
from publisher.verify.plain_documents import MAX_BYTES, VALUE_PATTERNS, read_plain

_FEWEST = 4
"""Minimum number of documents of a form that are read together."""
_MAX_TAGS = 4096
_DIFFERING = (
    r'^(<(?:add|modify|delete) class-name="[^"]*" event-id=)"[^"]+">$',
    r'^(<value(?: type="[A-Za-z]+")? association-ref=)"[^"]*">$',
)
"""Tags with an attribute that differs between documents of one form."""
_KEY = "<association>"
_VALUE = re.compile(r'<value(?: type="([A-Za-z]+)")?(?: association-ref="<")?>').fullmatch
_NO_OCTETS = np.zeros(0, np.uint8)
_FACTORS = np.random.default_rng(1).integers(1, 1 << 62, _MAX_TAGS, np.int64)


def read_uniform(documents: pa.Array, associations: pa.Array) -> Iterator[OperationRows]:
    """Yields the operations of each form; documents without any of them are left to the other readers.

    ``associations`` are those under which the documents are stored, null for documents to leave."""
    try:
        texts = documents.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return
    tags = _find_tags(texts)
    if not len(tags.documents):
        return
    for form in _forms(tags):
        rows = form.read(texts, associations)
        if rows is not None:
            yield rows


@dataclass(frozen=True, slots=True)
class _Tags:
    """The tags of documents, one after the other; between them is text without tags."""

    data: pa.Buffer
    documents: Places
    counts: Places
    """Number of tags of each document."""
    starts: Places
    """The place of each tag in the data."""
    ends: Places

    @property
    def first(self) -> Places:
        """The first tag of each document."""
        return np.cumsum(self.counts) - self.counts

    def select(self, is_chosen: Mask) -> _Tags:
        """Returns the tags of some documents."""
        of_chosen = np.repeat(is_chosen, self.counts)
        return _Tags(
            self.data,
            self.documents[is_chosen],
            self.counts[is_chosen],
            self.starts[of_chosen],
            self.ends[of_chosen],
        )

    def names(self) -> tuple[list[str], Places]:
        """Returns distinct tags, and the place of each tag in them.

        Differing attributes have the value ``<``, which no tag has by itself."""
        encoded = self.text(self.starts, self.ends).dictionary_encode()
        names = encoded.dictionary
        for pattern in _DIFFERING:
            names = pc.replace_substring_regex(names, pattern, r'\1"<">')
        names = names.dictionary_encode()
        codes = names.indices.to_numpy()[encoded.indices.to_numpy()]
        return names.dictionary.to_pylist(), codes.astype(np.int64)

    def text(self, starts: Places, ends: Places) -> pa.Array:
        """Returns pieces of the data that lie one after the other."""
        bounds = pa.py_buffer(np.column_stack([starts, ends]).astype(np.int32))
        count = max(0, 2 * len(starts) - 1)
        pieces = pa.StringArray.from_buffers(count, bounds, self.data)
        return pieces.take(pa.array(np.arange(0, count, 2)))


def _find_tags(texts: pa.Array) -> _Tags:
    """Finds the tags of documents in which texts have no entities and control characters."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    low = int(bounds[0])
    octets = np.frombuffer(data, np.uint8, int(bounds[-1]) - low, low) if data else _NO_OCTETS
    opening, closing = (np.flatnonzero(octets == ord(sign)) + low for sign in "<>")
    counts, closings = (np.diff(np.searchsorted(at, bounds)) for at in (opening, closing))
    is_chosen = (counts == closings) & (counts > 0) & (counts <= _MAX_TAGS)
    is_chosen &= np.diff(bounds) <= MAX_BYTES
    odd = _find_odd(octets) + low
    is_chosen[np.searchsorted(bounds, odd, side="right") - 1] = False
    ends = closing[np.repeat(is_chosen, closings)] + 1
    starts = opening[np.repeat(is_chosen, counts)]
    tags = _Tags(data, np.flatnonzero(is_chosen), counts[is_chosen], starts, ends)
    # each tag ends before the next one begins; documents begin and end with a tag
    is_wrong = tags.ends < tags.starts
    is_wrong[:-1] |= tags.starts[1:] < tags.ends[:-1]
    first = tags.first
    is_right = tags.starts[first] == bounds[tags.documents]
    is_right &= tags.ends[first + tags.counts - 1] == bounds[tags.documents + 1]
    if len(first):
        is_right &= ~np.logical_or.reduceat(is_wrong, first)
    return tags if is_right.all() else tags.select(is_right)


def _find_odd(octets: npt.NDArray[np.uint8]) -> Places:
    """Finds entities, control characters, and characters from U+FFC0 on, of which XML forbids two."""
    odd = np.flatnonzero((octets < ord(" ")) | (octets == ord("&")))
    last = np.flatnonzero(octets[:-1] == 0xEF)
    return np.concatenate([odd, last[octets[last + 1] == 0xBF]])


def _forms(tags: _Tags) -> Iterator[_Form]:
    """Groups documents by their tags."""
    names, codes = tags.names()
    first = tags.first
    places = np.arange(len(codes)) - np.repeat(first, tags.counts)
    hashes = np.add.reduceat((codes + 1) * _FACTORS[places], first)
    _, sizes = np.unique(hashes, return_counts=True)
    order = np.argsort(hashes, kind="stable")
    for group in np.split(order, np.cumsum(sizes)[:-1]):
        if len(group) < _FEWEST:
            continue
        # documents of another form with the same hash are left out
        members = group[tags.counts[group] == tags.counts[group[0]]]
        at = first[members][:, np.newaxis] + np.arange(tags.counts[group[0]])
        is_same = (codes[at] == codes[at[0]]).all(axis=1)
        names_of_form = [names[code] for code in codes[at[0]].tolist()]
        yield _Form(tags, tags.documents[members[is_same]], at[is_same], names_of_form)


@dataclass(frozen=True, slots=True)
class _Form:
    """Documents with the same tags."""

    tags: _Tags
    documents: Places
    at: npt.NDArray[np.int64]
    """The place of each tag, by document."""
    names: Sequence[str]

    def read(self, texts: pa.Array, associations: pa.Array) -> OperationRows | None:
        """Reads the operations; ``None`` if the form is not that of a plain document."""
        sample = read_plain(texts[int(self.documents[0])].as_py().encode())
        keys = [place for place, name in enumerate(self.names) if name == _KEY]
        types = {place: m[1] for place, name in enumerate(self.names) if (m := _VALUE(name))}
        if sample is None or len(keys) != 1:
            return None
        collector = OperationCollector()
        collector.add_plain(0, sample)
        pattern = collector.rows()
        if len(types) != len(pattern.elements) - pattern.elements.null_count:
            return None
        names = self._texts(keys[0])
        is_right = self._matches({*keys, *types}) & _marks(
            pc.equal(names, associations.take(pa.array(self.documents)))
        )
        is_right &= _marks(pc.not_equal(names, ""))
        for place, type_ in types.items():
            if type_ in VALUE_PATTERNS:
                wanted = f"^(?:{VALUE_PATTERNS[type_]})$"
                is_right &= _marks(pc.match_substring_regex(self._texts(place), wanted))
        chosen = np.flatnonzero(is_right)
        return self._rows(chosen, names.take(pa.array(chosen)), pattern, [*types])

    def _matches(self, differing: set[int]) -> Mask:
        """Marks the documents that have the texts of the first one, except after some tags."""
        starts, ends = self.tags.ends[self.at[:, :-1]], self.tags.starts[self.at[:, 1:]]
        sizes = ends - starts
        fixed = np.array([n for n in range(sizes.shape[1]) if n not in differing], np.int64)
        is_right: Mask = (sizes[:, fixed] == sizes[0, fixed]).all(axis=1)
        for place in fixed[sizes[0, fixed] > 0].tolist():
            texts = self._texts(place)
            is_right &= _marks(pc.equal(texts, texts[0]))
        return is_right

    def _texts(self, place: int) -> pa.Array:
        """The text after a tag."""
        return self.tags.text(
            self.tags.ends[self.at[:, place]], self.tags.starts[self.at[:, place + 1]]
        )

    def _rows(
        self, chosen: Places, names: pa.Array, pattern: OperationRows, values: Sequence[int]
    ) -> OperationRows:
        """Repeats the operation of the first document with the values of each chosen document."""
        count, tags = len(chosen), self.at[chosen][:, values]
        elements = self.tags.text(self.tags.starts[tags].ravel(), self.tags.ends[tags + 1].ravel())
        if pattern.elements.null_count:
            is_null = pattern.elements.is_null().to_numpy(zero_copy_only=False)
            places = np.arange(count)[:, np.newaxis] * len(values) + np.cumsum(~is_null) - 1
            index = pa.array(places.ravel(), mask=np.tile(is_null, count))
            elements = elements.take(index)
        return OperationRows(
            self.documents[chosen],
            np.repeat(pattern.kinds, count),
            names,
            np.repeat(pattern.sizes, count),
            pa.DictionaryArray.from_arrays(
                np.tile(pattern.attributes.indices.to_numpy(), count), pattern.attributes.dictionary
            ),
            np.tile(pattern.changes, count),
            elements,
        )


def _marks(flags: pa.Array) -> Mask:
    marks: Mask = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return marks

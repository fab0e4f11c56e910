"""Rows to compare: one for each record and one for each document of a ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.dispatch.refusals import refusals_of
from publisher.errors import UsageError
from publisher.formats.registry import FORMATS
from publisher.ledger.parts import LedgerPart, document_rows, rows_of_places
from publisher.model.change import Outcome, Position
from publisher.model.event_ids import ORIGIN_PATTERN
from publisher.model.lanes import SEPARATOR

TEXT_BYTES = 32 << 20
"""Maximum bytes of documents that are read together, unless one document has more."""
_ROWS = 1 << 16
"""Maximum number of rows that are built at once."""


class LedgerRowKind(IntEnum):
    """Kind of a row."""

    RECORD = 0
    DOCUMENT = 1


ROW_SCHEMA = pa.schema(
    [
        ("side", pa.int8()),
        ("kind", pa.int8()),
        # schema, table and key of the object; for a record without an object its id
        ("group", pa.string()),
        ("has_object", pa.bool_()),
        # of a record the source and position, of a document the event id
        ("name", pa.string()),
        # false: the other ledger names the same input in another way
        ("is_known", pa.bool_()),
        ("outcome", pa.int8()),
        ("reason", pa.string()),
        ("records", pa.int64()),
        # of a document
        ("operations", pa.int32()),
        ("digest", pa.binary(16)),
        # part of the ledger, row in its records or documents, bytes of the document
        ("part", pa.int32()),
        ("row", pa.int64()),
        ("length", pa.int64()),
    ]
)

_POSITION = ("source", *Position._fields)
_OF_RECORDS = (*_POSITION, "schema", "table", "key", "outcome", "reason", "records", "document")
_OF_DOCUMENTS = ("source", "event_id", "operation", "length")


def names_of_sources(parts: Sequence[LedgerPart]) -> set[tuple[str, str]]:
    """Names and formats of the sources whose positions do not differ from run to run."""
    return {
        (source.name, source.format)
        for part in parts
        for run in part.runs
        for source in run.manifest.sources
        if not FORMATS[source.format].compares
    }


@dataclass(frozen=True, slots=True)
class LedgerRowReader:
    """Reads the rows of the parts of one ledger."""

    side: int
    sources: Collection[tuple[str, str]]
    """Names and formats of the sources whose ids can be equal in both ledger."""

    def read(self, number: int, part: LedgerPart) -> Iterator[pa.Table]:
        """Yields the records, then the documents of a part, some at a time.

        Raises:
            UsageError: A document was moved or deleted.
            FatalError: A file of the ledger is missing or damaged.
        """
        records, documents = part.records(_OF_RECORDS), part.documents(_OF_DOCUMENTS)
        document_of_record = document_rows(records, documents)
        refused = _refused_documents(part, documents)
        for place in _slices(len(records)):
            yield self._records(number, part, records, document_of_record, refused, place)
        rows, first = np.unique(document_of_record, return_index=True)
        first = first[rows >= 0]
        for place in _slices(len(documents)):
            groups = _groups(records.take(pa.array(first[place])))
            yield self._documents(number, part, documents, groups, place)

    def _records(
        self,
        number: int,
        part: LedgerPart,
        records: pa.Table,
        document_of_record: np.ndarray,
        refused: Mapping[int, str | None],
        place: slice,
    ) -> pa.Table:
        chosen = records[place]
        names, are_known = self._sources(part, chosen)
        positions = _positions(pa.chunked_array([names]), chosen)
        groups = _groups(chosen)
        outcomes, reasons = _outcomes(chosen, document_of_record[place], refused)
        return self._rows(
            LedgerRowKind.RECORD,
            number,
            place,
            group=pc.coalesce(groups, pc.if_else(are_known, positions, "")),
            has_object=groups.is_valid(),
            name=positions,
            is_known=are_known,
            records=chosen["records"],
            outcome=outcomes,
            reason=reasons,
        )

    def _documents(
        self,
        number: int,
        part: LedgerPart,
        documents: pa.Table,
        groups: pa.ChunkedArray,
        place: slice,
    ) -> pa.Table:
        chosen = documents[place]
        digests = _digests(part, range(place.start, place.stop), chosen["length"])
        return self._rows(
            LedgerRowKind.DOCUMENT,
            number,
            place,
            group=groups,
            has_object=pa.array(np.full(len(chosen), fill_value=True)),
            name=pc.replace_substring_regex(
                chosen["event_id"], ORIGIN_PATTERN, ":", max_replacements=1
            ),
            is_known=self._sources(part, chosen)[1],
            operations=pc.add(pc.count_substring(chosen["operation"], " "), 1),
            digest=pa.array(digests, pa.binary(16)),
            length=chosen["length"],
        )

    def _rows(
        self,
        kind: LedgerRowKind,
        part: int,
        place: slice,
        **columns: pa.ChunkedArray | pa.Array,
    ) -> pa.Table:
        count = len(columns["group"])
        constants = {
            "side": pa.array(np.full(count, self.side)),
            "kind": pa.array(np.full(count, kind)),
            "part": pa.array(np.full(count, part)),
            "row": pa.array(np.arange(place.start, place.stop)),
        }
        given = constants | columns
        return pa.table(
            {
                entry.name: given[entry.name].cast(entry.type)
                if entry.name in given
                else pa.nulls(count, entry.type)
                for entry in ROW_SCHEMA
            },
            schema=ROW_SCHEMA,
        )

    def _sources(self, part: LedgerPart, rows: pa.Table) -> tuple[pa.Array, pa.Array]:
        """The name of each row's source, and whether the other ledger has this source."""
        firsts, names, are_known = [], list[str](), list[bool]()
        for run in part.runs:
            firsts.append(len(names))
            for source in run.manifest.sources:
                names.append(source.name)
                are_known.append((source.name, source.format) in self.sources)
        at = np.array(firsts)[rows["run"].to_numpy()] + rows["source"].to_numpy()
        return pa.array(names, pa.string()).take(pa.array(at)), pa.array(np.array(are_known)[at])


def _groups(records: pa.Table) -> pa.ChunkedArray:
    schemas = pc.fill_null(records["schema"], "")
    return pc.binary_join_element_wise(schemas, records["table"], records["key"], SEPARATOR)


def _positions(sources: pa.ChunkedArray, records: pa.Table) -> pa.ChunkedArray:
    texts = [records[name].cast(pa.string()) for name in Position._fields]
    texts[0] = pc.fill_null(texts[0], "")
    return pc.binary_join_element_wise(sources, *texts, SEPARATOR)


def _refused_documents(part: LedgerPart, documents: pa.Table) -> dict[int, str | None]:
    """The reasons of refused documents by their rows."""
    refusals = refusals_of(part.runs)
    rows = rows_of_places(refusals, documents).tolist()
    return {
        row: refusal.reason
        for row, refusal in zip(rows, refusals.values(), strict=True)
        if row >= 0
    }


def _outcomes(
    records: pa.Table, rows: np.ndarray, refused: Mapping[int, str | None]
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Outcomes and reasons; the records of refused documents are rejected."""
    outcomes, reasons = records["outcome"], records["reason"]
    if refused:
        is_refused = pa.array(np.isin(rows, list(refused)))
        texts = pa.array([refused.get(row) for row in rows.tolist()], pa.string())
        outcomes = pc.if_else(is_refused, pa.scalar(int(Outcome.REJECTED), pa.int8()), outcomes)
        reasons = pc.if_else(is_refused, texts, reasons)
    return outcomes, reasons


def _digests(part: LedgerPart, rows: range, lengths: pa.ChunkedArray) -> Iterator[bytes]:
    for portion in together(rows, lengths.to_pylist()):
        for text in read_texts(part, portion):
            yield hashlib.blake2b(text.encode(), digest_size=16).digest()


def _slices(count: int) -> Iterator[slice]:
    for start in range(0, count, _ROWS):
        yield slice(start, min(start + _ROWS, count))


def together(rows: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yields rows in portions of at most ``TEXT_BYTES``, or of one row."""
    portion: list[int] = []
    total = 0
    for row, size in zip(rows, sizes, strict=True):
        if portion and total + size > TEXT_BYTES:
            yield portion
            portion, total = [], 0
        portion.append(row)
        total += size
    if portion:
        yield portion


def read_texts(part: LedgerPart, rows: Sequence[int]) -> list[str]:
    """Reads documents of a part.  Raises ``UsageError`` if they were moved or deleted."""
    texts = part.texts(rows)
    present = [text for text in texts if text is not None]
    if len(present) < len(texts):
        run = part.runs[part.documents(())["run"][rows[texts.index(None)]].as_py()]
        raise UsageError(
            f"the documents of run {run.manifest.run} are not in {run.documents}: move them back to it, "
            "or compare other ledger"
        )
    return present

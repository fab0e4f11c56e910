"""Rows to compare: one for each record and one for each document of a journal."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.dispatch.refusals import refusals_in
from publisher.errors import UsageError
from publisher.journal.scan_runs import JournalPart, document_rows
from publisher.model.change import Outcome, Position
from publisher.model.lanes import SEPARATOR
from publisher.sources.registry import FORMATS

TEXT_BYTES = 32 << 20
"""Maximum bytes of documents that are read together, unless one document has more."""


class JournalRowKind(IntEnum):
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
        # false: the other journal names the same input in another way
        ("is_known", pa.bool_()),
        ("outcome", pa.int8()),
        ("reason", pa.string()),
        ("records", pa.int64()),
        # of a document
        ("operations", pa.int32()),
        ("digest", pa.binary(16)),
        # part of the journal, row in its decisions or documents, bytes of the document
        ("part", pa.int32()),
        ("row", pa.int64()),
        ("length", pa.int64()),
    ]
)

_POSITION = ("source", *Position._fields)
_OF_RECORDS = (*_POSITION, "schema", "table", "key", "outcome", "reason", "records", "document")
_OF_DOCUMENTS = ("source", "event_id", "operation", "length")


def names_of_sources(parts: Sequence[JournalPart]) -> set[tuple[str, str]]:
    """Names and formats of the sources whose positions do not differ from run to run."""
    return {
        (source.name, source.format)
        for part in parts
        for run in part.runs
        for source in run.manifest.sources
        if not FORMATS[source.format].compares
    }


@dataclass(frozen=True, slots=True)
class JournalRowReader:
    """Reads the rows of the parts of one journal."""

    side: int
    sources: Collection[tuple[str, str]]
    """Names and formats of the sources whose ids can be equal in both journals."""

    def read(self, number: int, part: JournalPart) -> Iterator[pa.Table]:
        """Yields the records, then the documents of a part.

        Raises:
            UsageError: A document was moved or deleted.
            FatalError: A file of the journal is missing or damaged.
        """
        decisions, documents = part.decisions(_OF_RECORDS), part.documents(_OF_DOCUMENTS)
        of_decisions = document_rows(decisions, documents)
        names, are_known = self._sources(part, decisions)
        positions = _positions(pa.chunked_array([names]), decisions)
        groups = _groups(decisions)
        yield self._rows(
            JournalRowKind.RECORD,
            number,
            group=pc.coalesce(groups, pc.if_else(are_known, positions, "")),
            has_object=groups.is_valid(),
            name=positions,
            is_known=are_known,
            records=decisions["records"],
            **_outcomes(part, decisions, documents, of_decisions),
        )
        rows, first = np.unique(of_decisions, return_index=True)
        yield self._rows(
            JournalRowKind.DOCUMENT,
            number,
            group=groups.take(pa.array(first[rows >= 0])),
            has_object=pa.array(np.full(len(documents), fill_value=True)),
            name=documents["event_id"],
            is_known=self._sources(part, documents)[1],
            operations=pc.add(pc.count_substring(documents["operation"], " "), 1),
            digest=pa.array(_digests(part, documents["length"]), pa.binary(16)),
            length=documents["length"],
        )

    def _rows(
        self, kind: JournalRowKind, part: int, **columns: pa.ChunkedArray | pa.Array
    ) -> pa.Table:
        count = len(columns["group"])
        constants = {
            "side": pa.array(np.full(count, self.side)),
            "kind": pa.array(np.full(count, kind)),
            "part": pa.array(np.full(count, part)),
            "row": pa.array(np.arange(count)),
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

    def _sources(self, part: JournalPart, rows: pa.Table) -> tuple[pa.Array, pa.Array]:
        """The name of each row's source, and whether the other journal has this source."""
        firsts, names, are_known = [], list[str](), list[bool]()
        for run in part.runs:
            firsts.append(len(names))
            for source in run.manifest.sources:
                names.append(source.name)
                are_known.append((source.name, source.format) in self.sources)
        at = np.array(firsts)[rows["run"].to_numpy()] + rows["source"].to_numpy()
        return pa.array(names, pa.string()).take(pa.array(at)), pa.array(np.array(are_known)[at])


def _groups(decisions: pa.Table) -> pa.ChunkedArray:
    schemas = pc.fill_null(decisions["schema"], "")
    return pc.binary_join_element_wise(schemas, decisions["table"], decisions["key"], SEPARATOR)


def _positions(sources: pa.ChunkedArray, decisions: pa.Table) -> pa.ChunkedArray:
    texts = [decisions[name].cast(pa.string()) for name in Position._fields]
    texts[0] = pc.fill_null(texts[0], "")
    return pc.binary_join_element_wise(sources, *texts, SEPARATOR)


def _outcomes(
    part: JournalPart, decisions: pa.Table, documents: pa.Table, rows: np.ndarray
) -> dict[str, pa.ChunkedArray]:
    """Outcomes and reasons; the records of refused documents are rejected."""
    refusals = [
        (number, refusal)
        for number, run in enumerate(part.runs)
        for refusal in refusals_in(run.texts)
    ]
    outcomes, reasons = decisions["outcome"], decisions["reason"]
    if refusals:
        places = pa.table(
            {
                "run": [number for number, _ in refusals],
                "lane": [refusal.lane for _, refusal in refusals],
                "document": [refusal.document for _, refusal in refusals],
            }
        )
        refused = {
            row: refusal.reason
            for row, (_, refusal) in zip(
                document_rows(places, documents).tolist(), refusals, strict=True
            )
            if row >= 0
        }
        is_refused = pa.array(np.isin(rows, list(refused)))
        texts = pa.array([refused.get(row) for row in rows.tolist()], pa.string())
        outcomes = pc.if_else(is_refused, pa.scalar(int(Outcome.REJECTED), pa.int8()), outcomes)
        reasons = pc.if_else(is_refused, texts, reasons)
    return {"outcome": outcomes, "reason": reasons}


def _digests(part: JournalPart, lengths: pa.ChunkedArray) -> Iterator[bytes]:
    sizes = lengths.to_numpy()
    for rows in together(list(range(len(sizes))), sizes.tolist()):
        for text in read_texts(part, rows):
            yield hashlib.blake2b(text.encode(), digest_size=16).digest()


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


def read_texts(part: JournalPart, rows: Sequence[int]) -> list[str]:
    """Reads documents of a part.  Raises ``UsageError`` if they were moved or deleted."""
    texts = part.texts(rows)
    present = [text for text in texts if text is not None]
    if len(present) < len(texts):
        run = part.runs[part.documents(())["run"][rows[texts.index(None)]].as_py()]
        raise UsageError(
            f"the documents of run {run.manifest.run} are not in {run.documents}: move them back to it, "
            "or compare other journals"
        )
    return present

"""Parts of ledgers as rows of the tables of records, documents and look-ups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.dispatch.refusals import Refusal, refusals_of
from publisher.formats.contract import Source
from publisher.formats.registry import FORMATS
from publisher.ledger import tables
from publisher.ledger.parts import LedgerPart
from publisher.ledger.tables import RunTable
from publisher.model.change import Outcome
from publisher.tables.change_rows import labels_of, position_texts
from publisher.tables.columns import (
    DOCUMENTS,
    LOOKUPS,
    RECORDS,
    TIME,
    TableColumn,
    schema_of,
)

LEDGER_TABLES: Mapping[str, tuple[TableColumn, ...]] = {
    tables.RECORDS.name: RECORDS,
    tables.DOCUMENTS.name: DOCUMENTS,
    tables.LOOKUPS.name: LOOKUPS,
}
"""The tables of a ledger by their names, and the columns in which programs read them."""


def read_part(part: LedgerPart, table: RunTable) -> Iterator[pa.RecordBatch]:
    """Reads the rows of a table as batches of its schema in ``LEDGER_TABLES``.

    Raises:
        FatalError: A file of the ledger is missing or damaged.
    """
    reader, schema = _PartReader(part), schema_of(LEDGER_TABLES[table.name])
    for rows in part.rows(table):
        for batch in rows.combine_chunks().to_batches():
            if batch.num_rows:
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                columns |= reader.derive(batch, table)
                arrays = [columns[field.name].cast(field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class _PartReader:
    """Derives the columns that the files of a ledger do not have."""

    def __init__(self, part: LedgerPart) -> None:
        manifests = [run.manifest for run in part.runs]
        self._runs = pa.array([manifest.run for manifest in manifests], pa.string())
        self._sources = [entry for manifest in manifests for entry in manifest.sources]
        counts = [len(manifest.sources) for manifest in manifests]
        self._first_sources = np.cumsum([0, *counts])
        self._readers: dict[int, Source] = {}
        self._refusals = refusals_of(part.runs)

    def derive(self, rows: pa.RecordBatch, table: RunTable) -> dict[str, pa.Array]:
        """Returns the columns of rows that differ from those of the files, by their names."""
        runs: np.ndarray = rows.column("run").to_numpy()
        sources = self._first_sources[runs] + rows.column("source").to_numpy()
        names = pa.array([entry.name for entry in self._sources], pa.string())
        columns = {
            "run": self._runs.take(rows.column("run")),
            "source": names.take(pa.array(sources)),
        }
        if table == tables.LOOKUPS:
            return columns
        columns["position"] = self._positions(rows, sources)
        if table == tables.DOCUMENTS:
            refused = self._refusals_of(rows, rows.column("number"))
            reasons = [refusal and refusal.reason for refusal in refused]
            return columns | {"refused": pa.array(reasons, pa.string())}
        return columns | self._outcomes_of(rows)

    def _refusals_of(self, rows: pa.RecordBatch, documents: pa.Array) -> list[Refusal | None]:
        """The refusals of documents, given by their numbers in the lanes of rows."""
        if not self._refusals:
            return [None] * rows.num_rows
        places = (rows.column("run"), rows.column("lane"), documents)
        columns = (column.to_pylist() for column in places)
        return [self._refusals.get(place) for place in zip(*columns, strict=True)]

    def _outcomes_of(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """The outcomes; records of documents that the sink refused are rejected."""
        columns = {name: rows.column(name) for name in ("reason", "detail")}
        outcomes = labels_of(rows.column("outcome"))
        refused = self._refusals_of(rows, rows.column("document"))
        if any(refused):
            is_refused = pa.array([refusal is not None for refusal in refused])
            outcomes = pc.if_else(is_refused, Outcome.REJECTED.label, outcomes)
            for name, column in columns.items():
                texts = [refusal and getattr(refusal, name) for refusal in refused]
                columns[name] = pc.coalesce(pa.array(texts, pa.string()), column)
        times = rows.column("event_time").cast(TIME)
        numbers = {name: _without_none(rows.column(name)) for name in ("by", "document")}
        return {"outcome": outcomes, "event_time": times} | columns | numbers

    def _positions(self, rows: pa.RecordBatch, sources: np.ndarray) -> pa.Array:
        texts = np.empty(rows.num_rows, object)
        for number in np.unique(sources).tolist():
            at = np.flatnonzero(sources == number)
            text = self._reader_of(number).position_text
            texts[at] = position_texts(text, rows.take(pa.array(at))).to_pylist()
        return pa.array(texts, pa.string())

    def _reader_of(self, number: int) -> Source:
        if number not in self._readers:
            entry = self._sources[number]
            self._readers[number] = FORMATS[entry.format].restore(entry.options, entry.reading)
        return self._readers[number]


def _without_none(numbers: pa.Array) -> pa.Array:
    """Replaces -1, which a ledger writes for none, by null."""
    return pc.if_else(pc.less(numbers, 0), None, numbers)

"""The tasks of a verification: read documents, tables and other evidence; compare one bucket."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.private_tables import write_table
from publisher.formats.columns.row_images import Places
from publisher.formats.triggerless.comparison import Comparison
from publisher.formats.triggerless.decode import may_concern_objects, read_split_rows
from publisher.formats.triggerless.differences import TableRows
from publisher.formats.triggerless.hashing import text_hashes
from publisher.formats.triggerless.objects import join_objects
from publisher.formats.work import Work, read_records
from publisher.ledger.read import scan_kept_runs
from publisher.ledger.tables import DOCUMENTS
from publisher.model.catalogue import JobCatalogue, Table
from publisher.model.change import Object
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import Filter, FilterOptions
from publisher.planning.rendered_columns import ColumnRenderer
from publisher.verify.associations import AssociationTable, suffixes_of, table_of_suffix
from publisher.verify.bucket_documents import BucketDocuments
from publisher.verify.compare import ObjectEvidence
from publisher.verify.compare_table import ComparedTable, CompareInput, TableComparison
from publisher.verify.consumer_dump import ConsumerState, DumpRow, read_dump
from publisher.verify.documents import STORED_SCHEMA, DocumentPart
from publisher.verify.pieces import (
    EVIDENCE_SCHEMA,
    Evidence,
    EvidenceKind,
    EvidencePacker,
    blinds,
    each_evidence,
    marks,
)
from publisher.verify.results import BucketOutcome, ConsumerResult, TableResult
from publisher.xds.association import association
from publisher.xds.values import ValueOptions, Values

_DOCUMENT_SCHEMA = pa.schema([("order", pa.int32()), *STORED_SCHEMA])
_WAITING_SCHEMA = pa.schema([("association", pa.string())])
_LEDGER_SCHEMA = pa.schema([("association", pa.string()), ("event_id", pa.string())])


@dataclass(frozen=True, slots=True)
class PublishingRules:
    """The settings of a source that determine which columns documents have, and how."""

    case: IdentifierCase
    filters: FilterOptions


@dataclass(frozen=True, slots=True)
class LedgerDocuments:
    """The index of the documents in a job's ledger."""

    root: Path
    unsent: frozenset[str] = frozenset()
    """Runs that are not sent completely."""


@dataclass(frozen=True, slots=True)
class VerifyWork:
    """Implements ``ShuffleWork``: a partition is a bucket of objects of all tables."""

    documents: tuple[DocumentPart, ...]
    comparison: Comparison
    """The tables to read."""
    tables: tuple[ComparedTable, ...]
    """The same tables as documents show them."""
    rules: tuple[PublishingRules, ...]
    """The settings of each source."""
    values: ValueOptions
    catalogue: tuple[Table, ...]
    buckets: int
    """A power of two."""
    connected: Mapping[str, str] = field(default_factory=dict)
    """The first association of each group that changes of keys connect."""
    waiting: Work | None = None  # the run that would be next
    ledger_run: LedgerDocuments | None = None
    marks: Mapping[str, int] | None = None
    """See ``ObjectEvidence``."""
    has_expired: bool = False
    publishes_all: bool = False
    examples: int = 5
    dump: Path | None = None
    """The state of a consumer."""
    only: Path | None = None
    """A NumPy file with the sorted hashes of the objects to compare; ``None``: all."""
    in_xml: bool = True
    are_hidden: bool = False

    @property
    def parts(self) -> int:
        """Number of parts to read."""
        return 1 + len(self._readers())

    @property
    def partitions(self) -> int:
        """Number of buckets."""
        return self.buckets

    @property
    def schema(self) -> pa.Schema:
        """Schema of pieces."""
        return EVIDENCE_SCHEMA

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """Reads a part as pieces of ``EVIDENCE_SCHEMA``."""
        if not part:
            yield marks(self.buckets)
            return
        kind, number = self._readers()[part - 1]
        if kind is EvidenceKind.DOCUMENTS:
            yield from self._read_documents(number)
        elif kind is EvidenceKind.ROWS:
            yield from self._read_rows(number)
        elif kind is EvidenceKind.WAITING:
            yield from self._read_waiting(number)
        elif kind is EvidenceKind.CONSUMER:
            yield from self._read_dump()
        else:
            yield from self._read_ledger()

    def process(self, partition: int, pieces: Iterable[pa.RecordBatch], attempt: str) -> str:
        """Compares a bucket; returns its ``BucketOutcome`` as JSON."""
        return _Bucket(self, partition, attempt).compare(each_evidence(pieces)).to_json()

    def renderer(self, table: ComparedTable) -> ColumnRenderer:
        """Returns the renderer of a table's columns."""
        rules, catalogue = self.rules[table.source], JobCatalogue(self.catalogue)
        filter_ = Filter(rules.filters, catalogue=catalogue)
        values = Values(self.values, limits_length=self.in_xml)
        return ColumnRenderer(rules.case, values, filter_, catalogue)

    def _readers(self) -> list[tuple[EvidenceKind, int]]:
        counts = {
            EvidenceKind.DOCUMENTS: len(self.documents),
            EvidenceKind.ROWS: len(self.comparison.splits()),
            EvidenceKind.WAITING: 0 if self.waiting is None else len(self.waiting.splits()),
            EvidenceKind.CONSUMER: 0 if self.dump is None else 1,
            EvidenceKind.LEDGER: 0 if self.ledger_run is None else 1,
        }
        return [(kind, number) for kind, count in counts.items() for number in range(count)]

    def _packer(self, kind: EvidenceKind, table: int = 0, member: int = 0) -> EvidencePacker:
        only = None if self.only is None else np.load(self.only, mmap_mode="r")
        return EvidencePacker(self.buckets, kind, table, member, self.connected, only)

    def _read_documents(self, number: int) -> Iterator[pa.RecordBatch]:
        packer = self._packer(EvidenceKind.DOCUMENTS)
        for rows in self.documents[number].read():
            columns = {name: rows.column(name) for name in rows.schema.names}
            columns["order"] = pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)
            yield from packer.add(columns.pop("association"), columns)
        yield from packer.rest()

    def _read_rows(self, number: int) -> Iterator[pa.RecordBatch]:
        work = self.comparison.splits()[number]
        table = self.tables[work.table]
        packers = {n: self._packer(EvidenceKind.ROWS, work.table, n) for n in work.members}
        faulty = self._packer(EvidenceKind.FAULTS, work.table)
        for member, rows, faults in read_split_rows(self.comparison, number):
            details = [f.detail if may_concern_objects(f, member) else None for f in faults]
            if any(details):
                yield blinds(self.buckets, work.table, member)
            columns = {"detail": pa.array(details, pa.string())}
            yield from faulty.add(pa.array([""] * len(faults), pa.string()), columns)
            columns = {"key": rows.keys} | {f"v{n}": text for n, text in enumerate(rows.values)}
            yield from packers[member].add(table.associations(rows.keys), columns)
        for packer in (*packers.values(), faulty):
            yield from packer.rest()

    def _read_waiting(self, number: int) -> Iterator[pa.RecordBatch]:
        assert self.waiting is not None
        packer = self._packer(EvidenceKind.WAITING)
        orders = {table.name: table.key_order for table in self.tables}
        for records in read_records(self.waiting, number):
            changes = records.filter(
                pc.and_(records["key"].is_valid(), records["outcome"].is_null())
            )
            names = (changes.column(name).to_pylist() for name in Object._fields)
            objects = map(Object._make, zip(*names, strict=True))
            yield from packer.add(_associations(objects, orders), {})
        yield from packer.rest()

    def _read_dump(self) -> Iterator[pa.RecordBatch]:
        packer = self._packer(EvidenceKind.CONSUMER)
        assert self.dump is not None
        for rows in read_dump(self.dump):
            columns = {
                "attribute": pa.array([row.attribute for row in rows], pa.string()),
                "values": pa.array([row.values for row in rows], pa.list_(pa.string())),
            }
            yield from packer.add(pa.array([row.association for row in rows], pa.string()), columns)
        yield from packer.rest()

    def _read_ledger(self) -> Iterator[pa.RecordBatch]:
        assert self.ledger_run is not None
        sent, unsent = (self._packer(k) for k in (EvidenceKind.LEDGER, EvidenceKind.WAITING))
        for part in scan_kept_runs(self.ledger_run.root):
            is_unsent = np.array([run.manifest.run in self.ledger_run.unsent for run in part.runs])
            for rows in part.batches(DOCUMENTS, ("association", "new_association", "event_id")):
                for batch in rows.to_batches():
                    waits = is_unsent[batch.column("run").to_numpy()]
                    for name in ("association", "new_association"):
                        is_named = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
                        of_sent = batch.filter(pa.array(is_named & ~waits))
                        ids = {"event_id": of_sent.column("event_id")}
                        yield from sent.add(of_sent.column(name), ids)
                        of_unsent = batch.filter(pa.array(is_named & waits))
                        yield from unsent.add(of_unsent.column(name), {})
        yield from sent.rest()
        yield from unsent.rest()


def _associations(
    objects: Iterable[Object], orders: Mapping[AssociationTable, tuple[str, ...]]
) -> pa.Array:
    names = [
        association(obj, orders.get(AssociationTable(obj.schema, obj.table), ())) for obj in objects
    ]
    return pa.array(names, pa.string())


@dataclass(slots=True)
class _Bucket:
    """The evidence of a bucket, and its comparison."""

    work: VerifyWork
    number: int
    attempt: str
    pieces: dict[EvidenceKind, list[pa.RecordBatch]] = field(default_factory=dict)
    """Evidence of objects, by kind."""
    rows: dict[tuple[int, int], list[pa.RecordBatch]] = field(default_factory=dict)
    """Rows by the numbers of their table and of its member."""
    faults: dict[int, list[str | None]] = field(default_factory=dict)
    """Details of unreadable rows by the number of their table; ``None`` for rows of no object."""
    blind: dict[int, set[int]] = field(default_factory=dict)
    """Numbers of the tables in a class that have unreadable rows, by the number of the class."""

    def compare(self, evidence: Iterable[Evidence]) -> BucketOutcome:
        """Compares the objects of the bucket; writes the files of their differences."""
        for piece in evidence:
            self._take(piece)
        rows = self._table(EvidenceKind.DOCUMENTS, _DOCUMENT_SCHEMA)
        documents = BucketDocuments(rows, self.work.documents, self.work.connected)
        published, others = self._by_table(documents.published.associations)
        tables = [
            self._compare_table(number, published[number], documents)
            for number in range(len(self.work.tables))
        ]
        return BucketOutcome(
            tuple(tables),
            rows.num_rows,
            documents.repeated,
            len(documents.unreadable),
            tuple(documents.unreadable[: self.work.examples]),
            others,
            self._compare_consumer(documents) if self.work.dump else None,
        )

    def _take(self, piece: Evidence) -> None:
        if piece.kind is EvidenceKind.ROWS:
            self.rows.setdefault((piece.table, piece.member), []).append(piece.rows)
        elif piece.kind is EvidenceKind.FAULTS:
            details = piece.rows.column("detail").to_pylist()
            self.faults.setdefault(piece.table, []).extend(details)
        elif piece.kind is EvidenceKind.BLIND:
            self.blind.setdefault(piece.table, set()).add(piece.member)
        else:
            self.pieces.setdefault(piece.kind, []).append(piece.rows)

    def _table(self, kind: EvidenceKind, schema: pa.Schema) -> pa.Table:
        pieces = [rows.select(schema.names) for rows in self.pieces.get(kind, ())]
        return pa.Table.from_batches(pieces, schema)

    def _compare_consumer(self, documents: BucketDocuments) -> ConsumerResult:
        consumer = ConsumerState()
        for piece in self.pieces.get(EvidenceKind.CONSUMER, ()):
            columns = (piece[name].to_pylist() for name in ("association", "attribute", "values"))
            for row in zip(*columns, strict=True):
                consumer.add(DumpRow(*row))
        known = consumer.objects.keys()
        evidence = self._evidence_of(documents, known) if self.work.has_expired else None
        return consumer.compare(documents.published.texts(), self.work.examples, evidence)

    def _evidence_of(self, documents: BucketDocuments, names: Collection[str]) -> ObjectEvidence:
        """Collects the facts about objects that differ."""
        ledger_run: dict[str, set[str]] = {}
        for row in self._of_objects(EvidenceKind.LEDGER, _LEDGER_SCHEMA, names).to_pylist():
            ledger_run.setdefault(row["association"], set()).add(row["event_id"])
        waiting = self._of_objects(EvidenceKind.WAITING, _WAITING_SCHEMA, names)
        return ObjectEvidence(
            documents.facts_of(names),
            documents.published.mentions_of(names),
            frozenset(waiting["association"].to_pylist()),
            ledger_run,
            self.work.marks,
            self.work.has_expired,
            self.work.publishes_all,
            self.work.are_hidden,
        )

    def _of_objects(
        self, kind: EvidenceKind, schema: pa.Schema, names: Collection[str]
    ) -> pa.Table:
        table = self._table(kind, schema)
        return table.filter(pc.is_in(table["association"], pa.array([*names], pa.string())))

    def _by_table(self, associations: pa.Array) -> tuple[list[Places], dict[str, int]]:
        """Groups the published objects by table; counts those of tables that are not compared."""
        numbers = {table.suffix: number for number, table in enumerate(self.work.tables)}
        suffixes = suffixes_of(associations)
        of_suffix = [numbers.get(text, -1) for text in suffixes.dictionary.to_pylist()]
        table_of = np.array([*of_suffix, -1], np.int64)
        # the place of associations of other programs is the last one
        places = pc.fill_null(suffixes.indices, len(of_suffix)).to_numpy(zero_copy_only=False)
        of_object = table_of[places]
        counts = suffixes.filter(pa.array(of_object < 0)).value_counts()
        others = {
            "" if text is None else table_of_suffix(text).text: count
            for text, count in zip(
                counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True
            )
        }
        return [np.flatnonzero(of_object == n) for n in range(len(self.work.tables))], others

    def _compare_table(
        self, number: int, published: Places, documents: BucketDocuments
    ) -> TableResult:
        table = self.work.tables[number]
        members = (table.shape, *table.shape.children)
        parts = [
            _rows_of(self.rows.pop((number, n), []), len(member.others))
            for n, member in enumerate(members)
        ]
        objects = join_objects(table.shape, parts)
        given = CompareInput(
            _distinct(objects.rows),
            documents.published.associations.take(pa.array(published)),
            documents.published.columns(published),
            partial(self._evidence_of, documents),
            self.blind.get(number, set()),
        )
        renderer = self.work.renderer(table)
        comparison = TableComparison(table, renderer, given, self.work.examples)
        result, differences = comparison.run()
        faults, orphans = self.faults.get(number, []), sum(map(len, objects.orphans))
        result = result.add_faults([*faults, *[None] * orphans], self.work.examples)
        if not differences.num_rows:
            return result
        name = f"{number:03d}-{self.number:05d}-{self.attempt}.parquet"
        path = Path(self.work.comparison.target) / name
        write_table(differences, path, compression="zstd")
        return replace(result, files=(name,))


def _rows_of(batches: Sequence[pa.RecordBatch], columns: int) -> TableRows:
    names = [f"v{number}" for number in range(columns)]
    schema = pa.schema([(name, pa.string()) for name in ("key", *names)])
    table = pa.Table.from_batches([batch.select(schema.names) for batch in batches], schema)
    keys, *values = (column.combine_chunks() for column in table.columns)
    return TableRows(text_hashes(keys), keys, values)


def _distinct(rows: TableRows) -> TableRows:
    """Keeps the first of several rows with one key."""
    first = pc.index_in(rows.keys, rows.keys).to_numpy(zero_copy_only=False)
    places = np.arange(len(rows))
    return rows if (first == places).all() else rows.take(places[first == places])

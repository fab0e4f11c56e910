"""Results of a verification: counts by table and kind, examples, and files of differences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.private_tables import read_table
from publisher.formats.triggerless.differences import DIFFERENCE_SCHEMA
from publisher.model.plain import restore
from publisher.verify.compare import FINDINGS, ResultKind

RESULT_SCHEMA = pa.schema(
    [("result", pa.string()), ("association", pa.string()), *DIFFERENCE_SCHEMA]
)
"""One row for each object that is not equal: its result, and the change that makes documents equal."""


LABELS: Mapping[str, str] = MappingProxyType(
    {
        str(ResultKind.MISSING): "missing",
        str(ResultKind.SURPLUS): "surplus",
        str(ResultKind.PERHAPS_SURPLUS): "perhaps surplus",
        str(ResultKind.DIFFERENT): "different",
        str(ResultKind.NEVER_PUBLISHED): "never published",
        str(ResultKind.EXPIRED): "perhaps expired",
        str(ResultKind.UNSETTLED): "unsettled",
    }
)
"""The results of objects as people read them, by kind."""


@dataclass(frozen=True, slots=True)
class AttributeValues:
    """The values of an attribute on both sides."""

    attribute: str
    documents: tuple[str, ...]
    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """An object that is not equal."""

    kind: str
    association: str
    attributes: tuple[AttributeValues, ...] = ()
    place: str = ""
    """The place of its last document."""


@dataclass(frozen=True, slots=True)
class UnreadableDocument:
    """A document that consumers cannot read."""

    place: str
    problem: str


@dataclass(frozen=True, slots=True)
class TableResult:
    """The result of a table, or of a part of it."""

    table: str
    equal: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of objects by the kind of their result."""
    attributes: Mapping[str, int] = field(default_factory=dict)
    """Number of different objects by attribute."""
    unwritable: int = 0
    """Number of values that no document can have, for example because XML forbids a character."""
    unreadable_rows: int = 0
    """Number of rows without a usable key or value: each may be the row of any object."""
    unreadable_examples: tuple[str, ...] = ()
    """The faults of some of them."""
    orphans: int = 0
    """Number of rows of child tables that belong to no row of their parent."""
    examples: tuple[Example, ...] = ()
    files: tuple[str, ...] = ()
    """Files with the differences, see ``RESULT_SCHEMA``."""

    def join(self, other: TableResult, examples: int) -> TableResult:
        """Adds the result of another part; keeps at most so many examples of each kind."""
        return TableResult(
            self.table,
            self.equal + other.equal,
            _add(self.counts, other.counts),
            _add(self.attributes, other.attributes),
            self.unwritable + other.unwritable,
            self.unreadable_rows + other.unreadable_rows,
            tuple(sorted({*self.unreadable_examples, *other.unreadable_examples}))[:examples],
            self.orphans + other.orphans,
            first_of_kinds((*self.examples, *other.examples), examples),
            (*self.files, *other.files),
        )

    def add_faults(self, faults: Iterable[str | None], examples: int) -> TableResult:
        """Adds the faults of rows; ``None`` for rows of child tables that belong to no object."""
        details = [*faults]
        unreadable = [*filter(None, details)]
        return replace(
            self,
            unreadable_rows=len(unreadable),
            unreadable_examples=tuple(sorted(set(unreadable)))[:examples],
            orphans=len(details) - len(unreadable),
        )

    def remove_unsettled(self) -> TableResult:
        """Returns the result of the other objects."""
        kind = str(ResultKind.UNSETTLED)
        counts = {name: count for name, count in self.counts.items() if name != kind}
        examples = tuple(example for example in self.examples if example.kind != kind)
        return replace(self, counts=counts, examples=examples)


@dataclass(frozen=True, slots=True)
class ConsumerResult:
    """The comparison of a consumer's state with the documents.

    In examples the first values are those of the consumer, the second those of the documents."""

    equal: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of objects by the kind of their result."""
    examples: tuple[Example, ...] = ()

    def join(self, other: ConsumerResult, examples: int) -> ConsumerResult:
        """Adds the result of another part; keeps at most so many examples of each kind."""
        return ConsumerResult(
            self.equal + other.equal,
            _add(self.counts, other.counts),
            first_of_kinds((*self.examples, *other.examples), examples),
        )


@dataclass(frozen=True, slots=True)
class BucketOutcome:
    """The result of one bucket, or of several."""

    tables: tuple[TableResult, ...] = ()
    documents: int = 0
    repeated: int = 0
    """Documents that consumers ignore, because they have arrived before."""
    unreadable: int = 0
    unreadable_examples: tuple[UnreadableDocument, ...] = ()
    uncompared: Mapping[str, int] = field(default_factory=dict)
    """Number of published objects by table, for tables that cannot be compared."""
    consumer: ConsumerResult | None = None
    """The comparison with a consumer's state; ``None`` if there is none."""
    conflicting: int = 0
    """Records that consumers refuse, because their event id belongs to another record."""
    conflicting_examples: tuple[UnreadableDocument, ...] = ()

    def to_json(self) -> str:
        """Serialises the result."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BucketOutcome:
        """The inverse of ``to_json``."""
        return restore(cls, json.loads(text))

    def join(self, other: BucketOutcome, examples: int) -> BucketOutcome:
        """Adds the result of another bucket."""
        tables = {result.table: result for result in self.tables}
        for result in other.tables:
            before = tables.get(result.table)
            tables[result.table] = result if before is None else before.join(result, examples)
        return BucketOutcome(
            tuple(tables.values()),
            self.documents + other.documents,
            self.repeated + other.repeated,
            self.unreadable + other.unreadable,
            (*self.unreadable_examples, *other.unreadable_examples)[:examples],
            _add(self.uncompared, other.uncompared),
            _join_consumers(self.consumer, other.consumer, examples),
        )

    def settle(self, later: BucketOutcome, examples: int) -> BucketOutcome:
        """Replaces the unsettled objects by the result of comparing them again."""
        earlier = replace(self, tables=tuple(table.remove_unsettled() for table in self.tables))
        return earlier.join(BucketOutcome(later.tables), examples)

    def count(self, kinds: Iterable[ResultKind]) -> int:
        """Counts the objects with these results."""
        return sum(result.counts.get(kind, 0) for result in self.tables for kind in kinds)

    @property
    def has_findings(self) -> bool:
        """True if consumers cannot have what the tables have."""
        wrong = self.count(FINDINGS) or self.unreadable or self.unreadable_rows or self.conflicting
        return bool(wrong) or self.is_consumer_wrong

    @property
    def unreadable_rows(self) -> int:
        """Number of rows without a usable key or value."""
        return sum(table.unreadable_rows for table in self.tables)

    @property
    def is_consumer_wrong(self) -> bool:
        """True if documents show that the consumer has other values."""
        return self.consumer is not None and not FINDINGS.isdisjoint(self.consumer.counts)

    def in_folder(self, folder: str) -> BucketOutcome:
        """Names the files as seen from the parent of their folder."""

        def place(table: TableResult) -> TableResult:
            return replace(table, files=tuple(f"{folder}/{name}" for name in table.files))

        return replace(self, tables=tuple(map(place, self.tables)))

    def without_files(self) -> BucketOutcome:
        """Returns the result for people, who need no names of files."""
        return replace(self, tables=tuple(replace(table, files=()) for table in self.tables))


def first_of_kinds(examples: Sequence[Example], count: int) -> tuple[Example, ...]:
    """Returns the first examples of each kind, in the order of associations."""
    ordered = sorted(examples, key=lambda example: (example.kind, example.association))
    taken: dict[str, int] = {}
    kept = []
    for example in ordered:
        taken[example.kind] = taken.get(example.kind, 0) + 1
        if taken[example.kind] <= count:
            kept.append(example)
    return tuple(kept)


def _join_consumers(
    one: ConsumerResult | None, other: ConsumerResult | None, examples: int
) -> ConsumerResult | None:
    if one is None or other is None:
        return one or other
    return one.join(other, examples)


def _add(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def objects_with(folder: Path, files: Iterable[str], kind: ResultKind) -> pa.Array:
    """Reads the associations of the objects with a result from files of ``RESULT_SCHEMA``."""
    columns = [pa.chunked_array([[]], pa.string())]
    for name in files:
        table = read_table(folder / name, ["result", "association"])
        columns.append(table.filter(pc.equal(table["result"], str(kind)))["association"])
    return pa.concat_arrays([chunk for column in columns for chunk in column.chunks])

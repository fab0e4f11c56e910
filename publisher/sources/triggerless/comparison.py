"""The work of a comparison, as plain values that are shipped to tasks, and the results of tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from publisher.database import DatabaseOptions
from publisher.model.plain import restore
from publisher.sources.files.file_splits import FileRange, Split
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.live.table_reader import LiveTable, TableSplit
from publisher.sources.triggerless.compare import ComparisonCounts, ComparisonRules
from publisher.sources.triggerless.origin import OriginCheck, TableOrigin
from publisher.sources.triggerless.table_shape import TableShape

Side = Literal["now", "before"]


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Files with the known rows of a table; each file covers a range of the hashes of keys."""

    folder: str
    files: tuple[str, ...]
    """Names in the folder, in order of equally sized ranges, whose number is a power of two."""
    columns: tuple[str, ...]
    """The columns that the rows have."""


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition on the rows to compare."""

    equal: tuple[tuple[str, str], ...] = ()
    """Columns, by their names in the input, and the texts that they must have."""
    keys: tuple[str, ...] = ()
    """Canonical keys; empty for all rows."""


@dataclass(frozen=True, slots=True)
class TableWork:
    """The comparison of one table."""

    shape: TableShape
    reading: SnapshotOptions
    now: tuple[Split[FileRange] | TableSplit[None], ...]
    before: tuple[Split[FileRange], ...]
    """Splits of an earlier snapshot, used while no state is known."""
    known: KnownFiles | None
    buckets: int
    """Number of buckets, which are ranges of the hashes of keys; a power of two."""
    rules: ComparisonRules
    generation: int
    """Number of this comparison in positions."""
    condition: RowCondition = RowCondition()
    live: LiveTable | None = None
    """The table in the database; tasks do not repeat the condition that the database evaluates."""
    identity: tuple[object, ...] = ()
    """Identity of the files, see ``identity_of``."""
    last: Mapping[str, Any] = field(default_factory=dict)
    """The description of the table in the last state."""
    origin: TableOrigin | None = None
    """The database of the table."""
    to_prove: OriginCheck | None = None
    """Set if rows must prove that the table is the one in the state."""


class SplitWork(NamedTuple):
    """A split of a table to read."""

    table: int
    side: Side
    split: Split[FileRange] | TableSplit[None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The work of all tasks of a comparison; shipped to them, so it holds no connection."""

    tables: tuple[TableWork, ...]
    target: str
    """Directory visible to all executors, for the new state and the differences."""
    keep: bool
    """Whether to write a new state."""
    binary_text: Literal["hex", "base64"] | None
    database: DatabaseOptions | None = None
    text_of: Callable[[Any], str | None] = str
    """Text form of a value that a database driver returns."""

    def splits(self) -> list[SplitWork]:
        """The splits to read."""
        works: list[SplitWork] = []
        for number, table in enumerate(self.tables):
            works += [SplitWork(number, "now", split) for split in table.now]
            works += [SplitWork(number, "before", split) for split in table.before]
        return works

    @property
    def partitions(self) -> int:
        """Number of buckets of all tables."""
        return sum(table.buckets for table in self.tables)

    def first_partition(self, table: int) -> int:
        """Number of a table's first bucket among the buckets of all tables."""
        return sum(work.buckets for work in self.tables[:table])

    def place(self, partition: int) -> tuple[int, int]:
        """Table and bucket of a partition."""
        table = 0
        while partition >= self.tables[table].buckets:
            partition -= self.tables[table].buckets
            table += 1
        return table, partition


@dataclass(frozen=True, slots=True)
class BucketResult:
    """The result of comparing one bucket."""

    partition: int
    tallies: tuple[tuple[int, int], ...]
    """Row counts of the splits that reported to this bucket."""
    unreadable: int
    """Rows that the reading tasks rejected."""
    counts: ComparisonCounts
    found: str
    """File of the differences in the folder ``found``."""
    found_rows: int
    known: str | None
    """File of the new state in the folder ``known``."""
    known_rows: int
    bytes: int
    """Size in memory of the text of all rows read."""

    def to_json(self) -> str:
        """Serialises the result."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BucketResult:
        """The inverse of ``to_json``."""
        return restore(cls, json.loads(text))

"""A comparison that is to be done, as plain values that go to tasks, and what a task gives back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from publisher.database import DatabaseOptions
from publisher.sources.files.file_splits import Split
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.live.table_reader import LiveTable, TableSplit
from publisher.sources.triggerless.compare import Counts, Rules
from publisher.sources.triggerless.origin import OriginCheck, TableOrigin
from publisher.sources.triggerless.table_shape import Shape

Side = Literal["now", "before"]


@dataclass(frozen=True, slots=True)
class Kept:
    """The state of one table: files of rows, each with a range of the hashes of keys."""

    folder: str
    files: tuple[str, ...]
    """Names in the folder, by range: all ranges are of one size, their number is a power of two."""
    columns: tuple[str, ...]
    """The columns that were compared."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Which rows are compared: those with these texts in these columns (as they are read)."""

    equal: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()
    """Canonical keys; empty: any."""


@dataclass(frozen=True, slots=True)
class TableWork:
    """The comparison of one table."""

    shape: Shape
    reading: SnapshotOptions
    now: tuple[Split | TableSplit, ...]
    before: tuple[Split, ...]
    """An earlier snapshot, where nothing is known."""
    known: Kept | None
    buckets: int
    """Parts that it is compared in: ranges of the hashes of keys; a power of two."""
    rules: Rules
    generation: int
    """Number of this comparison."""
    condition: Condition = Condition()
    live: LiveTable | None = None
    """What is read of a database; a condition of its own is not looked at again."""
    identity: tuple[object, ...] = ()
    """Of the files that are read."""
    last: Mapping[str, Any] = field(default_factory=dict)
    """What the state says of the table."""
    origin: TableOrigin | None = None
    """The database that is read."""
    to_prove: OriginCheck | None = None
    """Given where rows must prove that the table is the one that the state describes."""


class SplitWork(NamedTuple):
    """One split of a table to be read."""

    table: int
    side: Side
    split: Split | TableSplit


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that the tasks of a comparison need to know.  Shipped to them; holds no connection."""

    tables: tuple[TableWork, ...]
    target: str
    """Directory that all executors see, for the new state and what is found."""
    keep: bool
    """Whether a new state is wanted."""
    binary_text: Literal["hex", "base64"] | None
    database: DatabaseOptions | None = None
    text_of: Callable[[Any], str | None] = str
    """Text form of a value that a database driver returns."""

    def splits(self) -> list[SplitWork]:
        """The splits to be read."""
        found: list[SplitWork] = []
        for number, table in enumerate(self.tables):
            found += [SplitWork(number, "now", split) for split in table.now]
            found += [SplitWork(number, "before", split) for split in table.before]
        return found

    @property
    def partitions(self) -> int:
        """Buckets of all tables."""
        return sum(table.buckets for table in self.tables)

    def first_partition(self, table: int) -> int:
        """Number of the first bucket of a table among those of all."""
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
    """What the comparison of one bucket gave."""

    partition: int
    tallies: tuple[tuple[int, int], ...]
    """Splits that told this bucket how many rows they read."""
    unreadable: int
    """Rows that were rejected where they were read."""
    counts: Counts
    found: str
    """File with what was found, in the folder ``found``."""
    found_rows: int
    known: str | None
    """File with the new state, in the folder ``known``."""
    known_rows: int
    bytes: int
    """Of the rows that were read, as text in memory."""

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BucketResult:
        """The inverse of ``to_json``."""
        plain = json.loads(text)
        plain["tallies"] = tuple((split, count) for split, count in plain["tallies"])
        counts = plain["counts"]
        plain["counts"] = Counts(*counts) if isinstance(counts, list) else Counts(**counts)
        return cls(**plain)

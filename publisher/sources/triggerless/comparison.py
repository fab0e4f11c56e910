"""The work of a comparison, as plain values that are shipped to tasks, and the results of tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from publisher.database.identity import TableOrigin
from publisher.database.options import DatabaseOptions
from publisher.model.plain import restore
from publisher.sources.files.file_splits import FileRange, Split
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.live.find_table import LiveTable
from publisher.sources.live.table_split import TableSplit
from publisher.sources.triggerless.compare import ComparisonCounts, ComparisonRules, EmptiedCounts
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
class UnpublishedKeys:
    """The keys of a table whose last changes were not published, see ``unpublished``."""

    file: str
    """File with the rows as consumers have them."""
    keys: Mapping[str, bool]
    """True if a comparison may pass over the row as long as it stays as it was read."""


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition on the rows to compare."""

    equal: tuple[tuple[str, str], ...] = ()
    """Columns, by their names in the input, and the texts that they must have."""
    keys: tuple[str, ...] = ()
    """Canonical keys; empty for all rows."""


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table to read: one that is compared, or one of its child tables."""

    shape: TableShape
    reading: SnapshotOptions
    now: tuple[Split[FileRange] | TableSplit[None], ...]
    """Splits to read; none for a child table that the task of its parent reads at the same moment."""
    before: tuple[Split[FileRange], ...]
    """Splits of an earlier snapshot, used while no state is known."""
    live: LiveTable | None = None
    """The table in the database; tasks do not repeat the condition that the database evaluates."""


@dataclass(frozen=True, slots=True)
class TableWork:
    """The comparison of one table with its child tables."""

    tables: tuple[ReadTable, ...]
    """The table, then its child tables in the order of the shape."""
    known: KnownFiles | None
    buckets: int
    """Number of buckets, which are ranges of the hashes of keys; a power of two."""
    rules: ComparisonRules
    generation: int
    """Number of this comparison in positions."""
    condition: RowCondition = RowCondition()
    identity: tuple[object, ...] = ()
    """Identity of the files, see ``identity_of``."""
    child_files: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """Identity of the files of each child table."""
    last: Mapping[str, Any] = field(default_factory=dict)
    """The description of the table in the last state."""
    origin: TableOrigin | None = None
    """The database of the table; ``None`` for files."""
    unpublished: UnpublishedKeys | None = None

    @property
    def shape(self) -> TableShape:
        """Shape of the table."""
        return self.tables[0].shape

    @property
    def finds_changed_keys(self) -> bool:
        """True if rows before and now show which objects have changed keys."""
        by, rules = self.shape.key_change_by, self.rules
        if not by or not rules.deletes or rules.first != "add":
            return False
        if self.known is None:
            return bool(self.tables[0].before)
        return set(by) <= set(self.known.columns)

    @property
    def is_part(self) -> bool:
        """True if only some rows are read, so that child tables may have rows of other objects."""
        live = self.tables[0].live
        return self.condition != RowCondition() or (live is not None and live.max_rows is not None)

    def splits(self) -> Iterator[tuple[Side, tuple[int, ...], Split[FileRange] | TableSplit[None]]]:
        """Yields the splits with the numbers of the tables that are read by each."""
        together = [n for n, table in enumerate(self.tables) if table.live and not table.now]
        for number, table in enumerate(self.tables):
            for split in table.now:
                yield "now", (number, *together), split
            for earlier in table.before:
                yield "before", (number,), earlier


class SplitWork(NamedTuple):
    """A split of a table to read."""

    table: int
    side: Side
    members: tuple[int, ...]
    """Numbers of the tables to read among those of a class; 0 is the parent."""
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
    notes: tuple[str, ...] = ()
    """Notes on databases that were accepted."""

    def splits(self) -> list[SplitWork]:
        """The splits to read."""
        return [
            SplitWork(number, *split)
            for number, table in enumerate(self.tables)
            for split in table.splits()
        ]

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
    merged: int
    """Rows that are only values of objects, see ``BucketObjects``."""
    orphans: int
    """Rejected rows of child tables without a parent."""
    counts: ComparisonCounts
    found: str
    """File of the differences in the folder ``found``."""
    found_rows: int
    known: str | None
    """File of the new state in the folder ``known``."""
    known_rows: int
    bytes: int
    """Size in memory of the text of all rows read."""
    emptied: Mapping[str, EmptiedCounts]
    """See ``ComparisonResult``."""
    candidates: str | None = None
    """File of the rows whose key may have changed, in the folder ``found``."""
    keys: tuple[str, ...] = ()
    """The keys of its rows among those of ``RowCondition``."""
    unpublished: tuple[str, ...] = ()
    """The keys whose changes stay unpublished."""
    moved: int = 0
    """Rows whose changes are not in ``found``, because their objects have changed keys."""

    @property
    def read(self) -> int:
        """Number of rows that were read."""
        return self.counts.read + self.unreadable + self.merged + self.orphans

    def to_json(self) -> str:
        """Serialises the result."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BucketResult:
        """The inverse of ``to_json``."""
        return restore(cls, json.loads(text))

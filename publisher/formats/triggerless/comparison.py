"""The work of a comparison, as plain values that are shipped to tasks, and the results of tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple

from publisher.database.identity import TableOrigin
from publisher.database.options import DatabaseOptions
from publisher.formats.files.file_splits import FileRange, Split
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.live.find_table import LiveTable
from publisher.formats.live.table_split import TableSplit
from publisher.formats.triggerless.relate import ComparisonCounts, ComparisonRules, EmptiedCounts
from publisher.formats.triggerless.table_shape import TableShape
from publisher.model.plain import restore


class PieceKind(IntEnum):
    """Kind of the rows of a split, and of a piece in the exchange."""

    NOW = 0
    BEFORE = 1
    """Rows of an earlier snapshot."""
    STATE = 2
    """Rows that the last comparison left."""
    REJECTED = 3
    TALLY = 4
    """The number of a split, and of its rows where they were read."""
    UNREADABLE = 5
    """Some rows of the table are unreadable, so unseen rows may still exist."""


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
    before: tuple[Split[FileRange], ...] = ()
    """Splits of an earlier snapshot, used while no state is known."""
    live: LiveTable | None = None
    """The table in the database; tasks do not repeat the condition that the database evaluates."""


@dataclass(frozen=True, slots=True)
class TableInput:
    """A table to compare, from files or from a database."""

    tables: tuple[ReadTable, ...]
    """The table, then its child tables in the order of the shape."""
    bytes: int
    """Approximate size of their text."""
    files: Sequence[object] = ()
    """Identity of its files, see ``identity_of``."""
    child_files: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """Identity of the files of each child table."""
    origin: TableOrigin | None = None
    """Its database; ``None`` for files."""

    @property
    def shape(self) -> TableShape:
        """Shape of the table."""
        return self.tables[0].shape


class SplitWork(NamedTuple):
    """A split of a table, or of its state, to read."""

    table: int
    kind: PieceKind
    members: tuple[int, ...]
    """Numbers of the tables to read among those of a class; 0 is the parent."""
    split: Split[Any] | TableSplit[None]


@dataclass(frozen=True, slots=True)
class TableWork:
    """The comparison of one table with its child tables."""

    input: TableInput
    state: tuple[str, ...] = ()
    """Files with the known rows."""
    last: Mapping[str, Any] = field(default_factory=dict)
    """The description of the table in the last state."""
    buckets: int = 1
    """Number of buckets, which are ranges of the hashes of keys; a power of two."""
    rules: ComparisonRules = field(default_factory=ComparisonRules)
    generation: int = 1
    """Number of this comparison in positions."""
    condition: RowCondition = RowCondition()

    @property
    def tables(self) -> tuple[ReadTable, ...]:
        """The table, then its child tables."""
        return self.input.tables

    @property
    def shape(self) -> TableShape:
        """Shape of the table."""
        return self.input.shape

    @property
    def finds_changed_keys(self) -> bool:
        """True if rows before and now show which objects have changed keys."""
        by, rules = self.shape.key_change_by, self.rules
        if not by or not rules.deletes or rules.first != "add":
            return False
        return set(by) <= set(self.last["columns"]) if self.last else bool(self.tables[0].before)

    @property
    def is_part(self) -> bool:
        """True if only some rows are read, so that child tables may have rows of other objects."""
        live = self.tables[0].live
        return self.condition != RowCondition() or (live is not None and live.max_rows is not None)

    def splits(self, number: int) -> list[SplitWork]:
        """The splits of the table, which has this number, and of its state."""
        works = [SplitWork(number, PieceKind.STATE, (0,), Split(f, 0, 0, None)) for f in self.state]
        together = [n for n, table in enumerate(self.tables) if table.live and not table.now]
        for n, table in enumerate(self.tables):
            works += [SplitWork(number, PieceKind.NOW, (n, *together), s) for s in table.now]
            if not self.last:
                works += [SplitWork(number, PieceKind.BEFORE, (n,), s) for s in table.before]
        return works


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
    notes: tuple[str, ...] = ()
    """Notes on databases that were accepted."""

    def splits(self) -> list[SplitWork]:
        """The splits to read."""
        return [split for n, table in enumerate(self.tables) for split in table.splits(n)]

    def buckets(self) -> list[tuple[int, int]]:
        """Table and bucket of each partition."""
        return [
            (n, bucket) for n, table in enumerate(self.tables) for bucket in range(table.buckets)
        ]


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
    bytes: int
    """Size in memory of the text of all rows read."""
    emptied: Mapping[str, EmptiedCounts]
    """See ``RelatedRows``."""
    candidates: str | None = None
    """File of the rows whose key may have changed, in the folder ``found``."""
    keys: tuple[str, ...] = ()
    """The keys of its rows among those of ``RowCondition``."""
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

"""The result of a planned lane, and the names of its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from publisher.model.change import Outcome


@dataclass(frozen=True, slots=True)
class Count:
    """Number of records of one source with one outcome and reason."""

    source: int
    outcome: Outcome
    reason: str | None
    records: int


@dataclass(frozen=True, slots=True)
class LaneResult:
    """The report of a planned lane to the driver: counts and the name of the staging folder.

    ``staged`` is empty if the files were written to their places.
    ``tallies`` are pairs of split number and number of records, counted by the reading tasks;
    ``digest`` is the SHA-256 of the part file.
    """

    lane: int
    staged: str
    documents: int
    bytes: int
    operations: tuple[tuple[str, int], ...]
    counts: tuple[Count, ...]
    tallies: tuple[tuple[int, int], ...]
    digest: str
    objects: int = 0
    """Number of objects in the file of published states; 0 if there is no such file."""
    seconds: float = 0.0
    """Seconds from the start of the lane's task to its complete files."""
    lookups: int = 0
    """Number of look-ups; without any the lane has no file of look-ups."""
    published: tuple[tuple[int, str, int, int], ...] = ()
    """For each source and ``part`` of positions, the least and greatest ``high`` of its published records."""
    span: tuple[int, int] | None = None
    """The least and greatest ``high`` of all records; ``None`` without records."""

    @property
    def has_rejects(self) -> bool:
        """True if the lane has rejected records."""
        return any(count.outcome == Outcome.REJECTED for count in self.counts)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the lane's files in the folder of the run: all except the part file."""
        names = LaneNames(self.lane)
        lookups = (names.lookups,) if self.lookups else ()
        return (names.index, names.records, *lookups)

    def folder(self, staging: Path) -> Path:
        """The folder of the files that the lane has in a folder for staged files, or instead of it."""
        return folder_of_lane(staging, self.staged)


def folder_of_lane(staging: Path, staged: str) -> Path:
    """The folder of a lane's files, see ``LaneResult``."""
    return staging / staged if staged else staging.parent


@dataclass(frozen=True, slots=True)
class LaneNames:
    """Names of the files of one lane inside a directory."""

    lane: int

    def table(self, name: str) -> str:
        """Rows of a table of the ledger (``RunTable``)."""
        return f"lane-{self.lane:05d}.{name}.parquet"

    @property
    def part(self) -> str:
        """Documents, one on each line."""
        return f"part-{self.lane:05d}.xds"

    @property
    def index(self) -> str:
        """Index of the documents (``INDEX_SCHEMA``)."""
        return self.table("documents")

    @property
    def records(self) -> str:
        """Records (``LEDGER_RECORD_SCHEMA``)."""
        return self.table("records")

    @property
    def lookups(self) -> str:
        """Answers to look-ups (``lookups.LOOKUP_SCHEMA``), if there are any."""
        return self.table("lookups")

    @property
    def objects(self) -> str:
        """Published states of objects, only while a run is planned."""
        return f"lane-{self.lane:05d}.objects.db"

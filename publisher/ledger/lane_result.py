"""The counts of a planned lane, and the name of its part file."""

from __future__ import annotations

from dataclasses import dataclass

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
    """The report of a planned lane to the driver, in counts.

    ``tallies`` are pairs of split number and number of records, counted by the reading tasks;
    ``digest`` is the SHA-256 of the documents, each with a line end.
    """

    lane: int
    documents: int
    bytes: int
    operations: tuple[tuple[str, int], ...]
    counts: tuple[Count, ...]
    tallies: tuple[tuple[int, int], ...]
    digest: str
    objects: int = 0
    """Number of objects in the file of published states; 0 if there is no such file."""
    seconds: float = 0.0
    """Seconds from the start of the lane's task to its complete rows."""
    published: tuple[tuple[int, str, int, int], ...] = ()
    """For each source and ``part`` of positions, the least and greatest ``high`` of its published records."""
    span: tuple[int, int] | None = None
    """The least and greatest ``high`` of all records; ``None`` without records."""

    @property
    def has_rejects(self) -> bool:
        """True if the lane has rejected records."""
        return any(count.outcome == Outcome.REJECTED for count in self.counts)


def part_name(lane: int) -> str:
    """The name of the part file of a lane: documents, one on each line."""
    return f"part-{lane:05d}.xds"

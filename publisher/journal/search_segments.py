"""Finds the runs of a segment that have certain decisions."""

from __future__ import annotations

import pyarrow.compute as pc

from publisher.journal.segment_files import DECISIONS, RUNS, read_columns
from publisher.journal.segments import Segment
from publisher.model.change import Outcome


def find_runs(segment: Segment, condition: pc.Expression) -> list[int]:
    """Returns the numbers of the runs of a segment with a decision that fits the condition."""
    runs = read_columns(segment.folder, DECISIONS, ["run"], condition)["run"]
    return sorted(pc.unique(runs).to_pylist())


def runs_with_failures(segment: Segment) -> list[int]:
    """Returns the numbers of the runs of a segment with rejected records or refused documents."""
    segment.header()
    rejected = find_runs(segment, pc.field("outcome") == int(Outcome.REJECTED))
    has_refusals = pc.field("refusals") > 0
    refused = read_columns(segment.folder, RUNS, ["run"], has_refusals)["run"]
    return sorted({*rejected, *refused.to_pylist()})

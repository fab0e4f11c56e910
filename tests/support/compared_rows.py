"""Compares the rows of a table with known rows, without files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from publisher.formats.triggerless.differences import TableRows
from publisher.formats.triggerless.relate import (
    ComparisonCounts,
    ComparisonRules,
    KnownRows,
    changes,
    relate,
)


class Compared(NamedTuple):
    """The differences of a table, and the rows that the next comparison knows."""

    differences: pa.RecordBatch
    known: KnownRows
    counts: ComparisonCounts


def compare(
    columns: Sequence[str], rows: TableRows, known: KnownRows, rules: ComparisonRules
) -> Compared:
    """Relates rows to known rows, and returns the changes."""
    relation = relate(columns, rows, known, rules)
    return Compared(changes(columns, relation, rules), relation.next, relation.counts)

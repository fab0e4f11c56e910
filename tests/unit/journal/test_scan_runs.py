"""Scans of whole journals."""

from __future__ import annotations

import pyarrow as pa

from publisher.journal.scan_runs import document_rows


def rows_of(entries: list[tuple[int, int, int]], documents: list[tuple[int, int]]) -> list[int]:
    """The rows of documents that are given as run, lane and number, in an index of runs and lanes."""
    names = ("run", "lane", "document")
    table = pa.table(
        {name: [entry[place] for entry in entries] for place, name in enumerate(names)}
    )
    index = pa.table(
        {name: [entry[place] for entry in documents] for place, name in enumerate(names[:2])}
    )
    rows: list[int] = document_rows(table, index).tolist()
    return rows


def test_documents_count_within_run_and_lane() -> None:
    index = [(0, 0), (0, 0), (0, 1), (2, 1)]
    assert rows_of([(0, 0, 1), (0, 1, 0), (2, 1, 0), (0, 1, -1)], index) == [1, 2, 3, -1]


def test_documents_of_other_lanes_have_no_row() -> None:
    assert rows_of([(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 1, 0)], [(0, 1), (0, 1)]) == [
        -1,
        0,
        -1,
        -1,
    ]
    assert rows_of([(0, 0, 0)], []) == [-1]

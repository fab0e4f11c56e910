"""Scans of whole journals."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from publisher.journal.fold_runs import Folding, SegmentSize
from publisher.journal.scan_runs import JournalPart, document_rows, scan_runs
from publisher.journal.segment_files import DECISIONS, DOCUMENTS
from tests.support.finished_runs import finish_runs, make_journals


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


def contents_of(part: JournalPart) -> list[str]:
    """Everything that a part has; a row's ``run`` is the name of its run."""
    names = [run.manifest.run for run in part.runs]
    documents = part.documents(("association",))
    scanned = [part.decisions(("outcome", "document")), documents]
    for table in (DOCUMENTS, DECISIONS):
        scanned += part.rows(table)
    rows = [row for table in scanned for row in table.to_pylist()]
    texts = part.texts(range(documents.num_rows))
    named = [str(sorted((row | {"run": names[row["run"]]}).items())) for row in rows]
    return named + [
        f"{names[row]} {text}"
        for row, text in zip(documents["run"].to_pylist(), texts, strict=True)
    ]


def test_runs_that_move_during_a_scan_are_found_in_their_segments(tmp_path: Path) -> None:
    journals = make_journals(tmp_path)
    first, *others = finish_runs(journals, 5)
    contents = {
        run: sorted(
            row for part in scan_runs(journals.root) for row in contents_of(part) if run in row
        )
        for run in others
    }
    parts = scan_runs(journals.root)
    next(parts)
    steps = Folding(journals, lambda: None, SegmentSize(1_000, 10_000, 1 << 24, 3_600), 1)
    while steps.step():
        pass
    assert journals.numbers() == [5]
    moved = [part for part in parts if part.runs[0].manifest.run != first]
    assert {run.manifest.run for part in moved for run in part.runs} == {*others}
    rows = [row for part in moved for row in contents_of(part)]
    assert {run: sorted(row for row in rows if run in row) for run in others} == contents

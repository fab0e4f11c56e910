"""Changes of keys are found while runs move into segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from publisher.journal.fold_runs import Folding, SegmentSize
from publisher.journal.job_journals import Journals
from publisher.journal.segment_files import read_columns
from publisher.reports import changed_keys
from publisher.reports.changed_keys import former_associations
from tests.support.finished_runs import copy_runs, finish_runs, make_journals


@pytest.fixture
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journals:
    """Finished runs; all of their modifies count as changes of keys."""
    monkeypatch.setattr(changed_keys, "_CHANGES", pc.field("association").is_valid())
    monkeypatch.setattr(changed_keys, "_OPERATION", "modify")
    journals = make_journals(tmp_path)
    copy_runs(journals, finish_runs(journals, 1)[0], 3)
    finish_runs(journals, 4)
    return journals


def fold(journals: Journals, runs: int = 1_000) -> None:
    steps = Folding(journals, lambda: None, SegmentSize(runs, 10_000, 1 << 24, 3_600), 1)
    while steps.step():
        pass


def test_runs_that_move_before_they_are_read(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, read = former_associations([journals.root]), changed_keys._of_run
    assert expected

    def move_and_read(root: Path) -> Iterator[pa.Table]:
        fold(journals)
        return read(root)

    monkeypatch.setattr(changed_keys, "_of_run", move_and_read)
    found = former_associations([journals.root])
    assert {new: {*olds} for new, olds in found.items()} == {
        new: {*olds} for new, olds in expected.items()
    }
    assert len(journals.numbers()) == 1


def test_a_segment_that_another_one_replaces(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = former_associations([journals.root])
    fold(journals, runs=2)
    assert len(journals.segments.current()) > 1

    def merge_and_read(*arguments: object) -> pa.Table:
        fold(journals)
        return read_columns(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(changed_keys, "read_columns", merge_and_read)
    found = former_associations([journals.root])
    assert {new: {*olds} for new, olds in found.items()} == {
        new: {*olds} for new, olds in expected.items()
    }

"""The runs of a job are read alike in folders and in segments, however many there are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.journal import read_runs as reading
from publisher.journal.fold_runs import Folding, SegmentSize
from publisher.journal.job_journals import Journals
from publisher.journal.manifest import Journal, Manifest
from publisher.journal.read_runs import open_runs, read_runs
from publisher.journal.segments import Segment
from publisher.reports.explain import RecordStory, explain
from tests.support.finished_runs import copy_runs, finish_run, finish_runs, make_journals


@pytest.fixture
def journals(tmp_path: Path) -> Journals:
    return make_journals(tmp_path)


def fold_all(journals: Journals, runs: int = 1_000) -> None:
    steps = Folding(journals, lambda: None, SegmentSize(runs, 10_000, 1 << 24, 3_600), 1)
    while steps.step():
        pass


def all_runs(segment: Segment) -> list[int]:
    return [*range(segment.first, segment.last + 1)]


def name_of(journal: Journal, manifest: Manifest) -> str:
    assert journal.place.name == manifest.run
    return manifest.run


def read_all(journals: Journals) -> list[str]:
    return [*read_runs(journals, all_runs, name_of)]


@pytest.mark.parametrize(("runs", "segments"), [(16, 16), (1_000, 1)])
def test_more_runs_than_are_read_at_once(journals: Journals, runs: int, segments: int) -> None:
    copies = 4 * reading._RUNS_AT_ONCE
    (run,) = finish_runs(journals, 1)
    copy_runs(journals, run, copies)
    expected = [journals.run_id(number) for number in range(1, copies + 2)]
    assert read_all(journals) == expected
    fold_all(journals, runs=runs)
    assert len(journals.segments.current()) == segments
    assert read_all(journals) == expected


def test_only_selected_runs_of_segments_are_read(journals: Journals) -> None:
    runs = finish_runs(journals, 6)
    fold_all(journals)
    chosen = [*read_runs(journals, lambda _: [4, 2], name_of)]
    assert chosen == [runs[1], runs[3], runs[5]]  # the newest run has a folder


@pytest.fixture
def moves_at_manifest(journals: Journals, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs move just before the manifest of the first of them is read; their names."""
    runs, read = finish_runs(journals, 4), Journal.manifest

    def move_and_read(self: Journal) -> Manifest | None:
        if self.root == journals.root / runs[0]:
            monkeypatch.setattr(Journal, "manifest", read)
            fold_all(journals)
            assert not self.root.exists()
        return read(self)

    monkeypatch.setattr(Journal, "manifest", move_and_read)
    return runs


def test_a_run_that_moves_once_it_is_found_is_read(
    journals: Journals, moves_at_manifest: list[str]
) -> None:
    assert read_all(journals) == moves_at_manifest


def test_a_run_that_moves_once_it_is_found_is_opened(
    journals: Journals, moves_at_manifest: list[str]
) -> None:
    assert [name_of(*run) for run in open_runs(journals, all_runs)] == moves_at_manifest


def test_a_segment_that_is_replaced_in_the_meantime_is_found_again(journals: Journals) -> None:
    (run,) = finish_runs(journals, 1)
    copy_runs(journals, run, 40)
    fold_all(journals, runs=2)
    assert len(journals.segments.current()) > 1

    def names() -> Iterator[str]:
        for name in read_runs(journals, all_runs, name_of):
            if name == run:
                fold_all(journals)  # merges all segments
            yield name

    before = read_all(journals)
    assert [*names()] == before
    assert len(journals.segments.current()) == 1


@pytest.mark.parametrize("table", ["runs", "decisions", "documents", "lookups"])
def test_a_damaged_segment_is_named(journals: Journals, table: str) -> None:
    finish_runs(journals, 3)
    fold_all(journals)
    (segment,) = journals.segments.current()
    path = segment.folder / f"{table}.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FatalError, match=f"{table}.parquet of the journal cannot be read") as found:
        read_all(journals)
    assert f"or remove the directory {segment.folder}" in str(found.value)


def test_runs_that_are_removed_in_the_meantime_are_left_out(journals: Journals) -> None:
    first, *_, last = finish_runs(journals, 3)
    fold_all(journals)

    def select(segment: Segment) -> list[int]:
        shutil.rmtree(segment.folder)
        return all_runs(segment)

    assert [*read_runs(journals, select, name_of)] == [last]
    assert first not in read_all(journals)


@pytest.mark.parametrize("records", [6, 600])
def test_small_and_large_runs_are_explained_as_before(journals: Journals, records: int) -> None:
    """Small tables are searched without Arrow."""
    finish_run(journals, range(1, records + 1))
    finish_run(journals, [records + 1])
    position = str(records // 2)
    before = [told(journals, what) for what in (position, f"log:{position}", "idu=2")]
    assert all(before)
    fold_all(journals)
    assert journals.segments.current()
    assert [told(journals, what) for what in (position, f"log:{position}", "idu=2")] == before


def told(journals: Journals, what: str) -> list[RecordStory]:
    return [replace(story, target="", segment=None) for story in explain(journals.root, what)]

"""Reading the runs of a job, wherever their rows are, also while runs move."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from publisher.errors import UsageError
from publisher.ledger import read, storage
from publisher.ledger.hours import Hour, hours_of
from publisher.ledger.job import RUN, Ledger
from publisher.ledger.parts import LedgerPart, document_rows
from publisher.ledger.read import (
    OF_REPLAY,
    Wanted,
    find_job,
    find_run,
    read_runs,
    scan_kept_runs,
    scan_runs,
)
from publisher.ledger.runs import LedgerRun
from publisher.ledger.tables import DOCUMENTS, RECORDS
from publisher.reports.explain import RecordStory, explain
from tests.support.finished_runs import (
    close_hours,
    copy_runs,
    finish_run,
    finish_runs,
    make_ledgers,
)
from tests.support.ledgers import commit_run, documents


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return make_ledgers(tmp_path)


def names(ledger: Ledger, wanted: Wanted = Wanted()) -> list[str]:  # noqa: B008 - a constant
    return [run.place.name for run in read_runs(ledger, wanted)]


def published_from(root: Path, directory: Path) -> Path:
    directory.mkdir()
    (directory / RUN).write_text(json.dumps({"run": "r", "ledger": str(root)}), "utf-8")
    return directory


def test_a_run_is_found_by_all_its_directories(ledger: Ledger, tmp_path: Path) -> None:
    replay, _ = commit_run(tmp_path / "out" / OF_REPLAY, [documents(1)])
    of_job = ledger.root / finish_runs(ledger, 2)[0]
    other = of_job.with_name("job-000002")
    close_hours(ledger)
    assert not of_job.exists()
    for directory, root in [
        (tmp_path / "out", replay.root),
        (replay.root, replay.root),
        (of_job, of_job),
        (other, other),
        (published_from(replay.root, tmp_path / "copy"), replay.root),
        (published_from(of_job, tmp_path / "copy-of-job"), of_job),
    ]:
        run = find_run(directory)
        assert run.place == root
    assert find_job(ledger.root) == ledger
    assert find_job(replay.root) is find_job(tmp_path) is None


@pytest.mark.parametrize("content", [None, "", "{}", "[]", "null", '{"ledger": 1}', "\xff"])
def test_another_directory_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / RUN).write_text(content, "latin-1")
    with pytest.raises(UsageError, match="has no ledger: give the directory of a job's ledger, or"):
        find_run(tmp_path)


def test_a_ledger_that_was_moved_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(UsageError, match=f"published from {gone}, which does not exist: give"):
        find_run(published_from(gone, tmp_path / "copy"))


def test_more_runs_than_are_read_at_once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_RUNS_AT_ONCE", 5)
    (run,) = finish_runs(ledger, 1)
    copy_runs(ledger, run, 21)
    expected = [ledger.run_id(number) for number in range(1, 23)]
    assert names(ledger) == expected
    assert len([*scan_runs(ledger.root)]) == 5
    assert len(close_hours(ledger, fewest=8)) == 2
    assert names(ledger) == expected
    runs = [run.manifest.run for part in scan_runs(ledger.root) for run in part.runs]
    assert runs == expected


WANTED: dict[str, tuple[Wanted, list[int]]] = {
    "all": (Wanted(), [1, 2, 3, 4, 5, 6]),
    "failed": (Wanted(failed=True), [2, 4, 5]),
    "records": (
        Wanted(records=pc.field("high") == 8, keys=["idu=0"], between=(8, 8)),
        [3],
    ),
    "keys": (Wanted(records=pc.field("key") == "idu=3", keys=["idu=3"]), [1, 3, 4]),
    "no-key": (Wanted(records=pc.field("key") == "idu=9", keys=["idu=9"]), []),
    "between": (Wanted(records=pc.field("high") < 6, between=(3, 5)), [1, 2]),
}


@pytest.mark.parametrize("moved", [0, 3, 5])
@pytest.mark.parametrize("wanted", WANTED)
def test_only_runs_that_may_fit_are_read(ledger: Ledger, wanted: str, moved: int) -> None:
    """Every fifth record is rejected; objects are the remainders of four."""
    for number in range(6):
        first = 1 + 3 * number
        finish_run(ledger, range(first, first + 3), refused=False)
    close_hours(ledger, fewest=moved or 99)
    condition, numbers = WANTED[wanted]
    assert names(ledger, condition) == [ledger.run_id(number) for number in numbers]


@pytest.mark.parametrize(("wanted", "numbers"), [("all", range(1, 5)), ("between", [1, 2])])
def test_large_runs_are_skipped_by_their_positions(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, wanted: str, numbers: Sequence[int]
) -> None:
    monkeypatch.setattr("publisher.ledger.runs.RECORDS_OF_SMALL_RUN", 0)
    finish_runs(ledger, 4)
    assert not ledger.run("job-000001").is_packed
    condition, _ = WANTED[wanted]
    assert names(ledger, condition) == [ledger.run_id(number) for number in numbers]


def test_runs_that_are_hidden_are_left_out(ledger: Ledger) -> None:
    runs = finish_runs(ledger, 3)
    hidden = replace(ledger, hidden=frozenset({2}))
    assert names(hidden) == [runs[0], runs[2]]


def test_runs_that_move_while_they_are_read_are_read_once(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = finish_runs(ledger, 5)

    def read_and_move() -> Iterator[str]:
        for run in read_runs(ledger):
            if run.place.name == runs[0]:
                close_hours(ledger)
            yield run.place.name

    assert [*read_and_move()] == runs
    find = hours_of

    def move_and_find(root: Path, _: object) -> list[Hour]:
        monkeypatch.undo()
        finish_runs(ledger, 3)
        close_hours(ledger)
        return find(root)

    monkeypatch.setattr(read, "hours_of", move_and_find)
    assert names(ledger) == [ledger.run_id(number) for number in range(1, 8)]


def test_runs_that_are_removed_in_the_meantime_are_left_out(ledger: Ledger) -> None:
    runs = finish_runs(ledger, 3)
    found = read_runs(ledger)
    first = next(found)
    ledger.remove(runs[1:2])
    assert [first.place.name, *(run.place.name for run in found)] == [runs[0], runs[2]]


@pytest.mark.parametrize("records", [6, 600])
def test_runs_are_explained_as_before_they_moved(ledger: Ledger, records: int) -> None:
    finish_run(ledger, range(1, records + 1))
    finish_run(ledger, [records + 1])
    position = str(records // 2)
    before = [told(ledger, what) for what in (position, f"log:{position}", "idu=2")]
    assert all(before)
    assert close_hours(ledger)
    assert [told(ledger, what) for what in (position, f"log:{position}", "idu=2")] == before


def told(ledger: Ledger, what: str) -> list[RecordStory]:
    return [replace(story, target="", ledger=None) for story in explain(ledger.root, what)]


def rows_of(entries: list[tuple[int, int, int]], index: list[tuple[int, int]]) -> list[int]:
    """The rows of documents that are given as run, lane and number, in an index of runs and lanes."""
    columns = ("run", "lane", "document")
    table = pa.table(
        {name: [entry[place] for entry in entries] for place, name in enumerate(columns)}
    )
    documents = pa.table(
        {name: [entry[place] for entry in index] for place, name in enumerate(columns[:2])}
    )
    rows: list[int] = document_rows(table, documents).tolist()
    return rows


INDEX = [(0, 0), (0, 0), (0, 1), (2, 1)]


@pytest.mark.parametrize(
    ("entries", "index", "rows"),
    [
        ([(0, 0, 1), (0, 1, 0), (2, 1, 0), (0, 1, -1)], INDEX, [1, 2, 3, -1]),
        ([(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 1, 0)], [(0, 1), (0, 1)], [-1, 0, -1, -1]),
        ([(0, 0, 0)], [], [-1]),
    ],
)
def test_documents_count_within_run_and_lane(
    entries: list[tuple[int, int, int]], index: list[tuple[int, int]], rows: list[int]
) -> None:
    assert rows_of(entries, index) == rows


def contents_of(part: LedgerPart) -> list[str]:
    """Everything that a part has; a row's ``run`` is the name of its run."""
    runs = [run.manifest.run for run in part.runs]
    found = part.documents(("association",))
    scanned = [part.records(("outcome", "document")), found]
    for table in (DOCUMENTS, RECORDS):
        scanned += [rows.select(sorted(rows.column_names)) for rows in part.rows(table)]
    rows = [row for table in scanned for row in table.to_pylist()]
    texts = part.texts(range(found.num_rows))
    named = [str(sorted((row | {"run": runs[row["run"]]}).items())) for row in rows]
    return named + [
        f"{runs[row]} {text}" for row, text in zip(found["run"].to_pylist(), texts, strict=True)
    ]


def scan(parts: Callable[[Path], Iterator[LedgerPart]], root: Path) -> list[str]:
    return sorted(row for part in parts(root) for row in contents_of(part))


def test_a_scan_finds_the_same_rows_wherever_they_are(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish_runs(ledger, 5)
    before = scan(scan_runs, ledger.root)
    assert len(before) > 50
    parts = scan_runs(ledger.root)
    monkeypatch.setattr(read, "_RUNS_AT_ONCE", 2)
    begun = sorted(contents_of(next(parts)))
    close_hours(ledger, fewest=2)
    assert sorted([*begun, *(row for part in parts for row in contents_of(part))]) == before
    assert scan(scan_kept_runs, ledger.root) == before


def test_a_large_run_is_scanned_as_a_small_one(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("publisher.ledger.runs.RECORDS_OF_SMALL_RUN", 0)
    finish_runs(ledger, 3)
    large = scan(scan_runs, ledger.root)
    assert not any(LedgerRun(path, ledger.root).is_packed for path in ledger.root.glob("job-*"))
    with storage.transaction(ledger.root) as connection:
        connection.execute("DELETE FROM run")
    for path in ledger.root.glob("job-*"):
        ledger.discard(path.name)
    monkeypatch.undo()
    finish_runs(ledger, 3)
    assert ledger.run("job-000001").is_packed
    assert scan(scan_runs, ledger.root) == large


def test_a_directory_without_runs_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="has no complete run: publish first"):
        next(scan_runs(ledger.root))
    assert [*scan_kept_runs(ledger.root)] == [*scan_kept_runs(ledger.root / "none")] == []

"""The record of a recovery run: which of its documents a topic may have already."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.ledger.manifest import Manifest
from publisher.ledger.records import PositionText
from publisher.ledger.recovery import (
    RECOVERY,
    RecoveredDocuments,
    read_recovery,
)
from publisher.ledger.runs import LedgerRun
from publisher.ledger.waiting_records import WaitingIds, find_documents, last_segment
from publisher.model.change import Outcome, Position
from tests.support.ledgers import commit_run, documents
from tests.support.planned_ledgers import manifest_of, record, write_records

TEXTS: list[PositionText | None] = [Position.text]


def change(number: int, key: str | None, document: int = -1, part: str = "") -> dict[str, object]:
    outcome = Outcome.PUBLISHED if document >= 0 else Outcome.SUPERSEDED
    of = {"schema": "s", "table": "usr", "key": key, "document": document, "part": part}
    return dict(record(number, outcome)) | of


@pytest.fixture
def planned(tmp_path: Path) -> tuple[LedgerRun, Manifest]:
    lanes = [
        [change(1, "idu=1", 0), change(2, "idu=2", 1), change(3, "idu=1"), change(4, "idu=1", 2)],
        [change(5, "idu=3", 0, part="a,b.csv"), change(6, None), change(7, "idu=4", 1)],
    ]
    return write_records(tmp_path, lanes), manifest_of(2)


def recover(
    planned: tuple[LedgerRun, Manifest], texts: list[PositionText | None], *ids: str
) -> tuple[int, RecoveredDocuments]:
    """The number of waiting ids, and the documents that are recovered where the sink has some ids."""
    run, manifest = planned
    rows = run.lanes(manifest)
    waiting = WaitingIds.gather(rows, texts)
    waiting.mark(map(last_segment, ids))
    lanes = {lane.lane: find_documents(lane, texts, waiting) for lane in rows}
    return len(waiting), RecoveredDocuments(manifest.plan, lanes)


def test_whole_objects_are_recovered(planned: tuple[LedgerRun, Manifest]) -> None:
    """Also where the topic has only a record that is superseded now."""
    count, recovered = recover(planned, TEXTS, "3", "a,b.csv:5", "6", "99")
    assert count == 6
    assert recovered.lanes == {0: {0, 2}, 1: {0}}
    assert recover(planned, TEXTS)[1].count() == 0
    assert recover(planned, TEXTS, "99")[1].count() == 0


def test_records_without_lasting_ids_are_all_recovered(planned: tuple[LedgerRun, Manifest]) -> None:
    count, recovered = recover(planned, [None])
    assert count == 0
    assert recovered.lanes == {0: {0, 1, 2}, 1: {0, 1}}


def test_memory_grows_by_the_digests_of_the_waiting_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("publisher.model.sorted_ids.IDS_AT_ONCE", 1 << 10)
    monkeypatch.setattr("publisher.ledger.tables.ROWS_AT_ONCE", 500)
    peaks = []
    for count in (5_000, 40_000):
        root = tmp_path / str(count)
        root.mkdir()
        changes = [change(n, f"idu={n}", n) for n in range(1, count + 1)]
        run = write_records(root, [changes], group=500)
        del changes
        tracemalloc.start()
        waiting, recovered = recover((run, manifest_of(1)), TEXTS, "7", "4000")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert waiting == count
        assert recovered.lanes == {0: {7, 4000}}
    assert peaks[1] - peaks[0] < 35_000 * 32, peaks


def committed(root: Path) -> tuple[LedgerRun, Manifest]:
    return commit_run(root, [documents(2)])


def test_what_was_found_is_kept(tmp_path: Path) -> None:
    run, manifest = committed(tmp_path)
    assert read_recovery(run, manifest) is None
    written = RecoveredDocuments(manifest.plan, {0: frozenset({1, 7}), 3: frozenset({2})})
    written.write(run)
    found = read_recovery(run, manifest)
    assert found == written
    assert found is not None
    assert found.of_lane(0) == {1, 7}
    assert not found.of_lane(1)


@pytest.mark.parametrize("changed", [{"format": 0}, {"format": 99}, {"plan": "another"}])
def test_a_record_of_another_version_or_planning_is_refused(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    run, manifest = committed(tmp_path)
    RecoveredDocuments(manifest.plan, {}).write(run)
    run.write_text(RECOVERY, json.dumps(json.loads(run.texts()[RECOVERY]) | changed))
    with pytest.raises(FatalError, match=r"(has format|belongs to another plan).* recover"):
        read_recovery(run, manifest)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}'])
def test_a_damaged_record_is_one_clear_error(tmp_path: Path, text: str) -> None:
    run, manifest = committed(tmp_path)
    run.write_text(RECOVERY, text)
    with pytest.raises(
        FatalError, match=r"recovery of run .* is damaged.*run `xds-publisher recover"
    ):
        read_recovery(run, manifest)

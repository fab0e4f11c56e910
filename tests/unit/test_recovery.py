"""The record of a recovery run: which of its documents a topic may have already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from publisher.change import Outcome, Position
from publisher.errors import FatalError
from publisher.journal.manifest import Manifest
from publisher.journal.recovery import (
    RECOVERY,
    RecoveredDocuments,
    read_recovered,
    recovered_documents,
    waiting_ids,
)
from tests.unit.journals import manifest_of, record, write_decisions

TEXTS = [Position.text]


def change(number: int, key: str | None, document: int = -1, part: str = "") -> dict[str, object]:
    outcome = Outcome.PUBLISHED if document >= 0 else Outcome.SUPERSEDED
    of = {"schema": "s", "table": "usr", "key": key, "document": document, "part": part}
    return dict(record(number, outcome)) | of


@pytest.fixture
def planned(tmp_path: Path) -> tuple[Path, Manifest]:
    lanes = [
        [change(1, "idu=1", 0), change(2, "idu=2", 1), change(3, "idu=1"), change(4, "idu=1", 2)],
        [change(5, "idu=3", 0, part="a,b.csv"), change(6, None), change(7, "idu=4", 1)],
    ]
    write_decisions(tmp_path, lanes)
    return tmp_path, manifest_of(2)


def test_whole_objects_are_recovered(planned: tuple[Path, Manifest]) -> None:
    """Also where the topic has only a record that is superseded now."""
    root, manifest = planned
    assert waiting_ids(root, manifest, TEXTS) == {"1", "2", "3", "4", "b.csv:5", "7"}
    found = recovered_documents(root, manifest, TEXTS, {"3", "b.csv:5"})
    assert found.lanes == {0: {0, 2}, 1: {0}}
    assert recovered_documents(root, manifest, TEXTS, set()).count() == 0


def test_records_without_lasting_ids_are_all_recovered(planned: tuple[Path, Manifest]) -> None:
    root, manifest = planned
    assert waiting_ids(root, manifest, [None]) == set()
    assert recovered_documents(root, manifest, [None], set()).lanes == {0: {0, 1, 2}, 1: {0, 1}}


def test_what_was_found_is_kept(planned: tuple[Path, Manifest]) -> None:
    root, manifest = planned
    assert read_recovered(root, manifest) is None
    written = RecoveredDocuments(manifest.plan, {0: frozenset({1, 7}), 3: frozenset({2})})
    written.write(root)
    found = read_recovered(root, manifest)
    assert found == written
    assert found is not None
    assert found.of_lane(0) == {1, 7}
    assert not found.of_lane(1)


@pytest.mark.parametrize("changed", [{"format": 0}, {"format": 99}, {"plan": "another"}])
def test_a_record_of_another_version_or_planning_is_refused(
    planned: tuple[Path, Manifest], changed: dict[str, object]
) -> None:
    root, manifest = planned
    RecoveredDocuments(manifest.plan, {}).write(root)
    path = root / RECOVERY
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(FatalError, match=r"another planning or of another version.* recover"):
        read_recovered(root, manifest)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}'])
def test_a_damaged_record_is_one_clear_error(planned: tuple[Path, Manifest], text: str) -> None:
    root, manifest = planned
    (root / RECOVERY).write_text(text)
    with pytest.raises(FatalError, match="is damaged: remove this file and run"):
        read_recovered(root, manifest)

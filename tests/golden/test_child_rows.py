"""Rows of a parent and a child table in each format, against operations typed from the rules of classes.

The files in ``child_rows/`` hold the operations of transactions that touch both tables.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.runs.replay import replay
from tests.golden.stories import operations_in
from tests.golden.test_classes import operations_of
from tests.support.child_rows import CHANGE_TABLE, CLASSES, RECORDERS, FormatName, story

pytestmark = pytest.mark.usefixtures("local_engine")

EXPECTED = Path(__file__).parent / "child_rows"


def replay_files(folder: Path, settings: str, paths: list[Path], lanes: int = 1) -> list[bytes]:
    """Replays files and returns the operations of the documents."""
    path = folder / "job.toml"
    path.write_text(f"{settings}{CLASSES}\n[run]\nlanes = {lanes}\n", "utf-8")
    replay(load(path), paths, str(folder / "documents"))
    return operations_of(folder / "documents")


@pytest.mark.parametrize("format_", RECORDERS)
def test_rows_of_child_tables_are_values_of_the_parents_object(
    tmp_path: Path, format_: FormatName
) -> None:
    recorder = RECORDERS[format_]
    (tmp_path / "in").mkdir()
    found = replay_files(tmp_path, recorder.settings, recorder.write(tmp_path / "in", story()))
    assert found == operations_in(EXPECTED / f"{format_}.xds")


def test_typed_change_tables_give_the_same_documents(tmp_path: Path) -> None:
    found = replay_files(tmp_path, CHANGE_TABLE, [EXPECTED / "change-table"])
    assert found == operations_in(EXPECTED / "change-table.xds")

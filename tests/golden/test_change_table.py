"""Change files to documents through source and planner, against goldens typed from the rules.

``change_table/story.csv`` (with its ``.dfm``) was written by hand from the reference; the documents in
``change_table/story.xds`` follow the table of event types.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from publisher.formats.change_table.source import ChangeTable
from publisher.formats.contract import Context
from publisher.model.change import TALLY, Reason
from publisher.model.change_batches import changes_of
from tests.golden.stories import operations, operations_in
from tests.support.event_ids import plain_ids
from tests.support.event_log_files import OPEN
from tests.support.plan_results import Decision, Document
from tests.support.planning import Setup
from tests.support.prepare import prepare_here, read_prepared

HERE = Path(__file__).parent / "change_table"
SOURCE = ChangeTable()


def changes(*paths: Path) -> pa.RecordBatch:
    """The changes of files in the order of a lane; none of their records is rejected."""
    batches = []
    with prepare_here(SOURCE, paths, 1, OPEN) as prepared:
        for of_split in read_prepared(prepared, Context(0, 1, OPEN)):
            batches += of_split
    table = pa.Table.from_batches(batches)
    table = table.filter(pa.compute.fill_null(pa.compute.not_equal(table["outcome"], TALLY), True))
    assert table["outcome"].null_count == table.num_rows
    keys = [(name, "ascending") for name in ("high", "low", "ordinal")]
    return table.sort_by(keys).combine_chunks().to_batches()[0]


def plan_files(*paths: Path) -> tuple[list[Document], list[Decision]]:
    batch = changes(*(paths or [HERE / "story.csv"]))
    setup = Setup(polls=None, catalogue=OPEN, position_text=SOURCE.position_text)
    planned = setup.plan(changes_of(batch, range(batch.num_rows)))
    return planned.documents, planned.decisions


def test_the_story_gives_its_documents() -> None:
    documents, decisions = plan_files()
    assert decisions == []
    texts = [document.text for document in documents]
    assert operations(texts) == operations_in(HERE / "story.xds")


def test_documents_are_named_by_change_seq() -> None:
    documents, _ = plan_files()
    assert [plain_ids(document.event_id).removeprefix("log:") for document in documents] == [
        "20240318104726580000000000000000001",
        "20240318104726580000000000000000003",
        "20240318104726580000000000000000005",
        "20240318104727000000000000000000006",
        "20240318104727000000000000000000008",
        "20240318104727000000000000000000008.1",
        "20240318104727000000000000000000009",
    ]


def test_a_second_export_that_overlaps_publishes_nothing_twice(tmp_path: Path) -> None:
    folder = tmp_path / "hr.people__ct"
    folder.mkdir()
    for name in ("1", "2"):
        for suffix in (".csv", ".dfm"):
            copied = (HERE / "story.csv").with_suffix(suffix).read_text("utf-8")
            (folder / f"{name}{suffix}").write_text(copied, "utf-8")
    documents, decisions = plan_files(folder)
    assert [document.text for document in documents] == [one.text for one in plan_files()[0]]
    assert [decision.reason for decision in decisions] == [Reason.DUPLICATE] * 7

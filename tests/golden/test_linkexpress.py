"""An extraction file typed by hand (``linkexpress/story.hex``) to documents (``story.xds``), through
source, lanes and planner as in a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.formats.linkexpress import Linkexpress, LinkexpressOptions
from publisher.formats.linkexpress.options import ExtractedTable
from publisher.model.change import Outcome
from tests.golden.stories import count_outcomes, operations_in, plan_story, typed_bytes, work_of

HERE = Path(__file__).parent / "linkexpress"
USR = ExtractedTable(
    name="usr",
    schema="hr",
    key=("idu",),
    items=(
        "idu INTEGER",
        "fname CHARACTER(8)",
        "pay DECIMAL(7,2)",
        "photo BLOB(4)",
        "hired DATE",
    ),
    xid=1,
)
DEPT = ExtractedTable(
    name="dept", key=("no",), items=("no SMALLINT", "title NATIONAL CHARACTER(2)"), xid=2
)
SOURCE = Linkexpress(
    LinkexpressOptions(
        "group", "diff", True, (USR, DEPT), charset="EUC-JP", national_charset="EUC-JP"
    )
)


@pytest.mark.parametrize("splits", [1, 100])
def test_the_story_gives_its_documents(splits: int, tmp_path: Path) -> None:
    path = tmp_path / "story.dat"
    path.write_bytes(typed_bytes(HERE / "story.hex"))
    work = work_of(SOURCE, path, splits)
    result, published = plan_story(work, tmp_path)
    assert published == operations_in(HERE / "story.xds")
    assert count_outcomes(result) == {
        (Outcome.PUBLISHED, None): 5,
        (Outcome.IGNORED, "commit"): 2,
        (Outcome.HELD, "open-transaction"): 1,
    }
    assert sum(framed for _, framed in result.tallies) == 8

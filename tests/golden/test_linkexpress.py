"""An extraction file typed by hand (``linkexpress/story.hex``) to documents (``story.xds``), through
source, lanes and planner as in a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from publisher.change import Outcome
from publisher.filters import FilterOptions
from publisher.keys import IdentifierCase
from publisher.sources.linkexpress import Linkexpress, Options
from publisher.sources.linkexpress.options import ExtractedTable
from publisher.tasks import Rules, SourceWork, Work
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions
from tests.unit.task_runs import plan_all, read_all

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
    Options("group", "diff", True, (USR, DEPT), charset="EUC-JP", national_charset="EUC-JP")
)


def typed() -> bytes:
    lines = (HERE / "story.hex").read_text("utf-8").splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


def work_of(path: Path, splits: int) -> Work:
    source = SourceWork(
        name="linkexpress",
        source=SOURCE,
        splits=tuple(SOURCE.splits([path], splits)),
        filters=FilterOptions(),
        polls=None,
        identifier_case=IdentifierCase.AS_WRITTEN,
    )
    rules = Rules(DocumentOptions(), EnvelopeOptions(), ValueOptions(), (), None)
    return Work(sources=(source,), rules=rules, lanes=1, clock=0)


def operations(lines: list[str]) -> list[bytes]:
    elements = [etree.fromstring(line) for line in lines]
    return [
        etree.tostring(operation, method="c14n")
        for element in elements
        for operation in element.findall("input/*") or [element]
    ]


@pytest.mark.parametrize("splits", [1, 100])
def test_the_story_gives_its_documents(splits: int, tmp_path: Path) -> None:
    path = tmp_path / "story.dat"
    path.write_bytes(typed())
    work = work_of(path, splits)
    (result,) = plan_all(work, read_all(work), tmp_path)
    (part,) = (tmp_path / "documents").rglob("*.xds")
    expected = (HERE / "story.xds").read_text("utf-8").splitlines()
    assert operations(part.read_text("utf-8").splitlines()) == operations(expected)
    assert {(count.outcome, count.reason): count.records for count in result.counts} == {
        (Outcome.PUBLISHED, None): 5,
        (Outcome.IGNORED, "commit"): 2,
        (Outcome.HELD, "open-transaction"): 1,
    }
    assert sum(framed for _, framed in result.tallies) == 8

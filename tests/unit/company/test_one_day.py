"""The documents of four recordings of the same day, and the page that compares them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from publisher.engine.local import LocalEngine
from publisher.ledger.conservation import RunReport
from publisher.ledger.read import find_run
from tests.support.company.compare import lines
from tests.support.company.comparison import compare
from tests.support.company.consumer import agreed_objects
from tests.support.company.job import differences, prepare, publish
from tests.support.company.recorded_sources import RecordedSource
from tests.support.company.recordings import Operations, recordings
from tests.support.company.side_by_side import change_rows, outcome_rows
from tests.support.company.story import Story, write_story
from tests.support.documentation import text_of


class Day(NamedTuple):
    """The recordings of one day, published by one job."""

    directory: Path
    story: Story
    sources: list[RecordedSource]
    report: RunReport
    operations: list[list[Operations]]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    directory, story = tmp_path_factory.mktemp("company"), write_story()
    sources = prepare(directory, story)
    report = publish(directory)
    acts = [source.acts for source in sources]
    run = find_run(Path(report.ledger))
    operations = recordings(run.with_rows().lanes(run.manifest), acts)
    return Day(directory, story, sources, report, operations)


def test_every_record_has_the_outcome_that_its_author_expects(day: Day) -> None:
    assert differences(day.sources, day.report) == []


def test_the_page_shows_the_outcomes_of_each_source(day: Day) -> None:
    page = text_of("explanation/recordings.md").splitlines()
    assert [row for row in outcome_rows(day.sources) if row not in page] == []


def test_the_page_compares_all_kinds_of_changes(day: Day) -> None:
    page = text_of("explanation/recordings.md")
    others = [number for number, act in enumerate(day.story.acts) if act.row[0] != "usr"]
    acts = [day.story.acts[number] for number in others]
    operations = [[system[number] for number in others] for system in day.operations]
    assert "\n".join(change_rows(lines(acts, operations))) in page
    assert f"{len(day.story.acts):,} transactions" in page
    assert f"the same values in {agreed_objects(day.story.acts, day.operations):,} objects" in page


def test_a_comparison_of_the_tables_publishes_a_document_for_each_changed_object(day: Day) -> None:
    with LocalEngine() as engine:
        reports = compare(day.directory, day.story.company, engine)
    assert reports.second.documents == len(reports.changes.operations)

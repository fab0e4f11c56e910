"""Answers of ``explain`` where little or nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.cli.output import stories_text
from publisher.errors import UsageError
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.registry import FORMATS
from publisher.reports.explain import RecordStory, explain
from publisher.runs.publish import publish as publish_job
from tests.support import linkexpress_files
from tests.support.followed_jobs import FILES, load_settings, write_file
from tests.support.local_engine import EngineSwitch

KNOWN_AT = "2026-05-04 11:15:03+00:00"


def story(event_time: str | None, perpetrator: str | None) -> RecordStory:
    return RecordStory(
        source="crm",
        position="1",
        place="crm.csv, record 2",
        raw=None,
        object=None,
        event=None,
        columns=(),
        resolution=None,
        event_time=event_time,
        perpetrator=perpetrator,
        outcome="published",
        reason=None,
        meaning="",
        status="S",
        by=None,
        lookups=(),
        document=None,
        target="out",
    )


@pytest.mark.parametrize(
    ("event_time", "perpetrator", "shown"),
    [
        (KNOWN_AT, "anna", [f"{KNOWN_AT} by anna"]),
        (KNOWN_AT, None, [KNOWN_AT]),
        (KNOWN_AT, "", [KNOWN_AT]),
        (None, "anna", ["unknown by anna"]),
        (None, None, []),
        (None, "", []),
    ],
)
def test_shows_time_and_author_of_a_change_if_known(
    event_time: str | None, perpetrator: str | None, shown: list[str]
) -> None:
    lines = list(stories_text([story(event_time, perpetrator)]))
    assert [line[12:] for line in lines if line.startswith("time ")] == shown


@pytest.mark.parametrize("format_", FORMATS)
def test_each_format_writes_positions_as_it_says(format_: str) -> None:
    options = linkexpress_files.OPEN if format_ == "linkexpress" else FORMATS[format_].options()
    source = FORMATS[format_].source(options, SnapshotOptions())
    with pytest.raises(UsageError) as caught:
        source.parse_position("")
    assert FORMATS[format_].position_text in caught.value.message


def test_an_unknown_position_is_answered_with_the_forms_of_the_sources(
    local_engine: EngineSwitch, tmp_path: Path
) -> None:
    write_file(tmp_path, "1.csv", 1, 2)
    report = publish_job(load_settings(tmp_path, FILES, ""))
    for what in ("4711", "nobody", "idu=4711"):
        with pytest.raises(UsageError) as caught:
            explain(Path(report.ledger), what)
        assert caught.value.message == (
            f"run job-000001 has no record {what!r}: give a position as a record_id or FILE:NUMBER"
            " (hr), an event id as SOURCE:POSITION, a key as idu=1, or an association as"
            " idu=1,table=usr"
        )

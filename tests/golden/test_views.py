"""Views as classes: event logs on views against whole operations in ``classes/``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.stories import operations
from tests.golden.test_classes import (
    EXPECTED,
    ClassStory,
    database_job,
    operations_of,
    outcomes_of,
    replay_events,
)

pytestmark = pytest.mark.usefixtures("local_engine")

SCHEMA = """
CREATE TABLE person (id INTEGER NOT NULL, fname VARCHAR(64), boss INTEGER);
CREATE TABLE phone (id INTEGER NOT NULL, phoneno VARCHAR(64));
CREATE TABLE member (id INTEGER NOT NULL, grp INTEGER);
INSERT INTO person VALUES (1, 'John', 2), (2, 'Ann', NULL);
INSERT INTO phone VALUES (1, '222-2222'), (1, '111-1111');
INSERT INTO member VALUES (1, 9), (1, 7);
CREATE VIEW view_usr (pk_idu, sv_fname, mv_phoneno, fk__idu__manager) AS
    SELECT person.id, fname, phoneno, boss FROM person LEFT JOIN phone ON phone.id = person.id;
"""
E6 = ("6|view_usr|pk_idu=1",)
READING_STORIES = [ClassStory("E6", E6)]


def direct_job(folder: Path, schema: str = SCHEMA) -> str:
    """A job file with a database of these tables and views, which associations call ``direct``."""
    return database_job(folder, schema).replace('"indirect"', '"direct"')


@pytest.mark.parametrize(
    "story", READING_STORIES, ids=lambda story: f"{story.expected} {story.events[-1]}"
)
def test_objects_of_views_are_read_whole(story: ClassStory, tmp_path: Path) -> None:
    folder = replay_events(tmp_path, story.events, story.settings, job=direct_job(tmp_path))
    lines = (EXPECTED / f"{story.expected}.xml").read_text("utf-8").splitlines()
    assert operations_of(folder) == operations(lines), outcomes_of(folder, 1)

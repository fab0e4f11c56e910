"""Rows of a parent and a child table in each format, against operations typed from the rules of classes.

Each folder of ``child_rows/`` holds transactions that touch both tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from publisher.config.job_file import load
from publisher.runs.replay import replay
from tests.golden.stories import operations_in
from tests.golden.test_classes import operations_of

pytestmark = pytest.mark.usefixtures("local_engine")

STORIES = Path(__file__).parent / "child_rows"
CLASSES = """
[tables.usr]
schema = "indirect"
key = ["idu"]
columns = { idu = "int", fname = "string", manager = "int" }
references = { manager = { table = "usr" } }

[tables.usr.children]
usr_phone = { columns = { phoneno = "string" } }
"""


class ChildRowStory(NamedTuple):
    """The format, which is the name of the folder, and the settings of its source."""

    format: str
    settings: str


FORMATS = [ChildRowStory("change-table", 'schema = "indirect"\nkey_from_deletes = false\n')]


@pytest.mark.parametrize("story", FORMATS, ids=lambda story: story.format)
def test_rows_of_child_tables_are_values_of_the_parents_object(
    tmp_path: Path, story: ChildRowStory
) -> None:
    path = tmp_path / "job.toml"
    path.write_text(
        f'[source]\nformat = "{story.format}"\n{story.settings}{CLASSES}\n[run]\nlanes = 1\n',
        "utf-8",
    )
    replay(load(path), [STORIES / story.format], str(tmp_path / "documents"))
    assert operations_of(tmp_path / "documents") == operations_in(STORIES / f"{story.format}.xds")

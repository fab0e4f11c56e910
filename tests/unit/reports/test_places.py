"""Places of documents as users write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.errors import UsageError
from publisher.reports.places import FilePlace, TopicPlace, parse_place


def test_a_place_in_a_topic_and_a_place_in_a_file(tmp_path: Path) -> None:
    assert parse_place("xds.usr:3:17") == TopicPlace("xds.usr", 3, 17)
    assert parse_place("out/part-00003.xds:17") == FilePlace(Path("out/part-00003.xds"), 17)
    assert parse_place("out/part-00003.xds:17").lane == 3  # type: ignore[union-attr]
    file = tmp_path / "topic:3"
    file.touch()
    assert parse_place(f"{file}:17") == FilePlace(file, 17)


@pytest.mark.parametrize("text", ["", "xds", "xds:", "xds:a", ":1", "xds:1:-1", "part-00000.xds:x"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write TOPIC:PARTITION:OFFSET or FILE:LINE"):
        parse_place(text)


@pytest.mark.parametrize("name", ["rejects.jsonl", "part-1.xds", "part-00001.xds.gz"])
def test_other_files_are_no_part_files(name: str) -> None:
    place = FilePlace(Path(name), 1)
    with pytest.raises(UsageError, match="is not a part file"):
        _ = place.lane

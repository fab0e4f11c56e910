"""What is kept of files that a job has published."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.journal.file_entries import FileEntry
from publisher.journal.files import PublishedFiles
from publisher.journal.manifest import Manifest, SourceEntry


def run_of(*files: Path, source: str = "hr", number: int = 1) -> Manifest:
    """The manifest of a run that read these files as they are now."""
    read = tuple(FileEntry.of(path).with_digest() for path in files)
    entry = SourceEntry(source, "event-log", (), {}, {}, 0, files=read)
    return Manifest(f"job-{number:06d}", "job", 1, "", {}, (entry,), (), ".", 0)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.csv" for name in "abc"]
    for path in paths:
        path.write_text(path.name)
    return paths


def test_files_of_no_run_are_new(files: list[Path], tmp_path: Path) -> None:
    nothing = PublishedFiles.read(tmp_path / "published-files.json")
    assert list(nothing.new_of("hr", files)) == files


def test_files_of_runs_are_not_new_any_more(files: list[Path]) -> None:
    known = PublishedFiles().with_runs([run_of(files[0]), run_of(files[2], number=2)])
    assert list(known.new_of("hr", files)) == [files[1]]


def test_another_source_reads_the_same_file_by_itself(files: list[Path]) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    assert list(known.new_of("other", files)) == files


def test_what_was_written_is_read_back(files: list[Path], tmp_path: Path) -> None:
    known = PublishedFiles().with_runs([run_of(*files), run_of(files[0], source="ö")])
    path = tmp_path / "published-files.json"
    known.write(path)
    assert PublishedFiles.read(path) == known
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["a.csv and more", "a"])
def test_a_file_that_changed_since_is_refused(files: list[Path], content: str) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    files[1].write_text(content)
    with pytest.raises(FatalError) as caught:
        list(known.new_of("hr", files))
    assert caught.value.message == (
        f"{files[1]} had 5 bytes when it was published, and has {len(content)} now: put what is new "
        "into a file of its own, and restore this one"
    )


def test_other_content_of_the_same_size_is_refused(files: list[Path], tmp_path: Path) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    known.write(tmp_path / "published-files.json")
    files[1].write_text("B.csv")
    os.utime(files[1], ns=(0, 0))
    with pytest.raises(FatalError, match="other content than when it was published"):
        list(PublishedFiles.read(tmp_path / "published-files.json").new_of("hr", files))


def test_a_file_that_was_empty_is_new_once_it_is_filled(files: list[Path]) -> None:
    files[1].write_text("")
    known = PublishedFiles().with_runs([run_of(*files)])
    assert list(known.new_of("hr", files)) == []
    files[1].write_text("b.csv")
    assert list(known.new_of("hr", files)) == [files[1]]


def test_a_file_that_was_copied_back_is_the_same(files: list[Path]) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    files[1].write_text("b.csv")
    os.utime(files[1], ns=(0, 0))
    assert list(known.new_of("hr", files)) == []


@pytest.mark.parametrize("content", ["", "{", "1", "[1]", "{}x", '[{"source": "hr"}]'])
def test_a_damaged_list_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "published-files.json"
    path.write_text(content)
    with pytest.raises(FatalError, match="is damaged: restore it"):
        PublishedFiles.read(path)

"""The memory of files that a job has published."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.errors import FatalError
from publisher.ledger.file_entries import FileEntry
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest, SourceEntry
from publisher.ledger.published_files import FileRules, PublishedFiles
from tests.support.event_ids import ORIGIN
from tests.support.finished_runs import finish
from tests.support.ledgers import write_identity


def run_of(*files: Path, source: str = "hr", number: int = 1) -> Manifest:
    """The manifest of a run that read these files as they are now."""
    read = tuple(FileEntry.of(path).with_digest() for path in files)
    entry = SourceEntry(source, "event-log", (), {}, {}, 0, files=read, origin=ORIGIN)
    return Manifest(f"job-{number:06d}", "job", 1, "", {}, (entry,), (), ".", 0)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.csv" for name in "abc"]
    for path in paths:
        path.write_text(path.name)
    return paths


def test_files_of_no_run_are_new(files: list[Path]) -> None:
    assert list(PublishedFiles().new_of("hr", files)) == files


def test_files_of_runs_are_not_new_any_more(files: list[Path]) -> None:
    known = PublishedFiles().with_runs([run_of(files[0]), run_of(files[2], number=2)])
    assert list(known.new_of("hr", files)) == [files[1]]


def test_another_source_reads_the_same_file_by_itself(files: list[Path]) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    assert list(known.new_of("other", files)) == files


@pytest.fixture
def remembered(files: list[Path], tmp_path: Path) -> PublishedFiles:
    """What the ledger of a job has once its runs have ended."""
    write_identity(tmp_path / "job")
    job = Ledger(tmp_path / "job", "job")
    for manifest in (run_of(*files), run_of(files[0], source="ö", number=2)):
        run = job.run(manifest.run)
        run.root.mkdir()
        run.commit(replace(manifest, lanes=0))
        finish(job, run)
    return job.published_files()


def test_the_ledger_remembers_files(files: list[Path], remembered: PublishedFiles) -> None:
    runs = [run_of(*files), run_of(files[0], source="ö")]
    assert remembered == PublishedFiles().with_runs(runs)


@pytest.mark.parametrize("content", ["a.csv and more", "a"])
def test_a_file_that_changed_since_is_refused(files: list[Path], content: str) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    files[1].write_text(content)
    with pytest.raises(FatalError) as caught:
        list(known.new_of("hr", files))
    assert caught.value.message == (
        f"{files[1]} had 5 bytes when it was published, and has {len(content)} now: write new "
        "records to a new file, and restore this one"
    )


def test_other_content_of_the_same_size_is_refused(
    files: list[Path], remembered: PublishedFiles
) -> None:
    files[1].write_text("B.csv")
    os.utime(files[1], ns=(0, 0))
    with pytest.raises(FatalError, match="same size as when it was published, but other content"):
        list(remembered.new_of("hr", files))


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


def test_a_file_replaced_with_the_same_size_and_time_is_noticed(files: list[Path]) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    stat = files[1].stat()
    other = files[1].with_name("new")
    other.write_text("B.csv")
    other.replace(files[1])
    os.utime(files[1], ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(FatalError, match="same size as when it was published, but other content"):
        known.new_of("hr", files)


def test_a_file_edited_in_place_with_its_time_set_back_is_noticed(files: list[Path]) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    stat = files[1].stat()
    with files[1].open("r+") as file:
        file.write("B")
    os.utime(files[1], ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(FatalError, match="same size as when it was published, but other content"):
        known.new_of("hr", files)


def test_attributes_of_a_file_may_change(files: list[Path]) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    files[1].chmod(0o600)
    os.link(files[1], files[1].with_name("link"))
    assert known.new_of("hr", files) == []


def test_a_file_is_known_by_every_spelling_of_its_path(files: list[Path], tmp_path: Path) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    (tmp_path / "other").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(files[0])
    spelled = tmp_path / "other" / ".." / "a.csv"
    assert known.new_of("hr", [spelled, link]) == []
    assert PublishedFiles().new_of("hr", [spelled, link, files[0]]) == [spelled]


def test_a_copy_is_refused_by_name(files: list[Path], tmp_path: Path) -> None:
    known = PublishedFiles().with_runs([run_of(*files)])
    copy = tmp_path / "z.csv"
    copy.write_text("b.csv")
    with pytest.raises(FatalError) as caught:
        known.new_of("hr", [*files, copy])
    assert caught.value.message.startswith(f"{copy} has the same content as {files[1]}, and")
    assert 'set copies = "publish"' in caught.value.message
    assert known.new_of("hr", [*files, copy], FileRules(copies="publish")) == [copy]
    assert known.new_of("other", [copy]) == [copy]


def test_two_new_files_of_one_content_are_refused(files: list[Path]) -> None:
    files[2].write_text("a.csv")
    with pytest.raises(FatalError, match=r"c\.csv has the same content as .*a\.csv"):
        PublishedFiles().new_of("hr", files)
    assert PublishedFiles().new_of("hr", files, FileRules(is_bare=lambda _: True)) == files


def test_a_copy_of_a_file_without_effect_is_new(files: list[Path]) -> None:
    """Exports of days without changes are equal."""
    entry = FileEntry.of(files[0]).with_digest()
    known = PublishedFiles({("hr", entry.path): replace(entry, effect=False)})
    files[1].write_text("a.csv")
    assert known.new_of("hr", files[:2]) == [files[1]]


def test_a_refused_file_is_new_once_settings_or_content_have_changed(files: list[Path]) -> None:
    entry = replace(FileEntry.of(files[0]).with_digest(), refused="then")
    known = PublishedFiles({("hr", entry.path): entry})
    assert known.new_of("hr", files[:1], FileRules(settings="then")) == []
    assert known.new_of("hr", files[:1], FileRules(settings="now")) == files[:1]
    files[1].write_text("a.csv")
    assert known.new_of("hr", files[:2], FileRules(settings="then")) == [files[1]]
    files[0].write_text("other")
    assert known.new_of("hr", files[:1], FileRules(settings="then")) == files[:1]

"""Finding the journal that a user means, and the first documents of a directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from publisher.errors import FatalError, UsageError
from publisher.journal.epoch import begin_epoch
from publisher.journal.find_journal import find_journal
from publisher.journal.job_journals import JOURNAL, RUN, Journals, first_documents
from publisher.journal.manifest import MANIFEST, Journal, RunEnd


def journal(root: Path) -> Path:
    root.mkdir(parents=True)
    (root / MANIFEST).touch()
    return root


def published_from(root: Path, directory: Path) -> Path:
    directory.mkdir()
    (directory / RUN).write_text(json.dumps({"run": "r", "journal": str(root)}), "utf-8")
    return directory


def test_a_journal_is_found_by_itself_or_below_what_replay_wrote(tmp_path: Path) -> None:
    root = journal(tmp_path / "out" / JOURNAL)
    assert find_journal(root) == root
    assert find_journal(tmp_path / "out") == root


def test_a_directory_with_documents_leads_to_its_journal(tmp_path: Path) -> None:
    root = journal(tmp_path / "jobs" / "demo-000001")
    assert find_journal(published_from(root, tmp_path / "copy")) == root


def test_a_journal_that_was_moved_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(UsageError, match=f"journal {gone}, which does not exist: give"):
        find_journal(published_from(gone, tmp_path / "copy"))


@pytest.mark.parametrize("content", [None, "", "{}", "[]", "null", '{"journal": 1}', "\xff"])
def test_another_directory_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / RUN).write_text(content, "latin-1")
    with pytest.raises(UsageError, match="is not a journal: give a journal"):
        find_journal(tmp_path)


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ([], ""),
        (["abcd"], "abc"),
        (["", "ab"], "ab"),
        (["", "ab", "c", "", "de"], "acd"),
        (["a", "bcd"], "abc"),
        (["a", "b", "c", "d"], "abc"),
    ],
)
def test_first_documents_are_of_all_parts_in_turn(
    tmp_path: Path, parts: list[str], shown: str
) -> None:
    for number, documents in enumerate(parts):
        text = "".join(f"{document}\n" for document in documents)
        (tmp_path / f"part-{number:05d}.xds").write_text(text, "utf-8")
    assert "".join(first_documents(tmp_path, 3)) == shown


def test_an_older_instance_throws_away_no_run_of_a_newer_one(tmp_path: Path) -> None:
    older, journals = begin_epoch(tmp_path), Journals(tmp_path, "job")
    assert journals.discard_incomplete(older) == []
    newer = begin_epoch(tmp_path)
    run = journals.create_run()
    with pytest.raises(FatalError, match="a newer instance of the job"):
        journals.discard_incomplete(older)
    assert (tmp_path / run).is_dir()
    assert journals.discard_incomplete(newer) == [run]
    assert not (tmp_path / run).exists()


def test_the_number_of_a_run_that_was_removed_is_not_used_again(tmp_path: Path) -> None:
    journals = Journals(tmp_path, "job")
    assert [journals.create_run(), journals.create_run()] == ["job-000001", "job-000002"]
    assert journals.discard_incomplete() == ["job-000001", "job-000002"]
    assert journals.last_number() == 2
    assert journals.create_run() == "job-000003"
    journals.discard("job-000003")  # found nothing new: the next run may have its number
    assert journals.create_run() == "job-000003"


def test_the_end_of_a_run_is_recorded(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.acknowledgement is None
    end = RunEnd(idle=True, notes=("late: 2 records",), seconds={"plan": 0.5}, engine="local")
    journal.mark_sent(end)
    assert journal.is_sent
    assert journal.acknowledgement == end


def test_the_end_of_a_run_without_seconds_is_read(tmp_path: Path) -> None:
    (tmp_path / "sent").write_text('{"format": 1, "idle": false, "notes": ["late: 2 records"]}')
    assert Journal(tmp_path).acknowledgement == RunEnd(notes=("late: 2 records",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is damaged: restore it, or remove it"),
        ("[]", "is damaged"),
        ('{"format": 2}', "has format 2"),
    ],
)
def test_the_end_of_a_run_in_another_version_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "sent").write_text(content)
    with pytest.raises(FatalError, match=message):
        _ = Journal(tmp_path).acknowledgement

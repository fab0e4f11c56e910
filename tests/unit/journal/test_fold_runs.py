"""Finished runs move into segments: nothing is lost or changed, whenever it is interrupted."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain, count
from pathlib import Path

import pytest

from publisher.acknowledge.retry import JournaledRun, RetrySelection, select_failed_records
from publisher.acknowledge.status_letters import RefusedDocuments, refused_documents
from publisher.config.job_file import defaults
from publisher.dispatch.refusals import read_records
from publisher.errors import FatalError, ReplacedError, UsageError
from publisher.journal.find_journal import open_journal
from publisher.journal.fold_runs import Folding, SegmentSize
from publisher.journal.job_journals import Journals
from publisher.journal.lineage import Lineage
from publisher.journal.lock import lock_directory
from publisher.journal.manifest import Journal, SourceEntry
from publisher.journal.read_runs import open_runs
from publisher.journal.search_segments import runs_with_failures
from publisher.journal.segment_header import SEGMENT_FORMAT
from publisher.reports.explain import RecordStory, explain
from publisher.reports.rejects import RejectedRecord, read_rejects
from publisher.runs.replay import dispatch
from tests.support.event_ids import ORIGIN
from tests.support.finished_runs import (
    contents_of,
    contents_of_all,
    copy_runs,
    finish_run,
    finish_runs,
    make_journals,
    plan_run,
)

SMALL = SegmentSize(runs=64, records=10_000, bytes=1 << 24, seconds=3_600)


@pytest.fixture
def journals(tmp_path: Path) -> Journals:
    return make_journals(tmp_path)


def folding(journals: Journals, *, least: int = 1, largest: SegmentSize = SMALL) -> Folding:
    return Folding(journals, lambda: None, largest, least)


def fold_all(journals: Journals) -> None:
    steps = folding(journals)
    while steps.step():
        pass


def runs_with_folder(journals: Journals) -> list[str]:
    return [journals.run_id(number) for number in journals.numbers()]


def segment_names(journals: Journals) -> list[str]:
    folder = journals.root / "segments"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def make_segments(journals: Journals, count: int) -> None:
    """Segments with one run each, before the newest run."""
    (run,) = finish_runs(journals, 1)
    copy_runs(journals, run, count)
    steps = folding(journals, largest=SMALL._replace(runs=1))
    for _ in range(count):
        steps.step()
    assert len(segment_names(journals)) == count


def count_runs_in_segments(journals: Journals) -> int:
    return sum(segment.header().runs for segment in journals.segments.current())


def test_a_run_in_a_segment_has_all_its_content(journals: Journals) -> None:
    runs = finish_runs(journals, 5)
    before = contents_of_all(journals, runs)
    kinds = (
        "part-00001.xds",
        "decisions.parquet",
        "documents.parquet",
        "lookups.parquet",
        "rejects.jsonl",
    )
    for kind in kinds:
        assert any(
            content for of in before.values() for name, content in of.items() if kind in name
        )
    fold_all(journals)
    assert runs_with_folder(journals) == runs[-1:]
    assert segment_names(journals) == ["000001-000004"]
    assert contents_of_all(journals, runs) == before


def test_explain_says_the_same_of_every_record(journals: Journals) -> None:
    runs = finish_runs(journals, 4)
    ids = [(run, str(n)) for at, run in enumerate(runs) for n in range(1 + 3 * at, 4 + 3 * at)]

    def stories() -> list[RecordStory]:
        stories = [story for run, n in ids for story in explain(journals.root / run, n)]
        return [replace(story, target="", segment=None) for story in stories]

    before = stories()
    assert {story.outcome for story in before} == {"published", "rejected", "ignored"}
    fold_all(journals)
    assert stories() == before


def test_rejected_records_in_segments_are_listed_as_before(journals: Journals) -> None:
    finish_runs(journals, 4)
    before = list(read_rejects([journals.root]))
    assert {record.reason for record in before} == {"event-type", "too-large"}
    assert len({record.id for record in before if record.id}) == 2
    fold_all(journals)
    assert segment_names(journals)

    def order(record: RejectedRecord) -> tuple[str, str]:
        return record.run, record.position

    assert sorted(read_rejects([journals.root]), key=order) == sorted(before, key=order)


def test_all_runs_of_a_job_are_searched(journals: Journals) -> None:
    runs = finish_runs(journals, 4)
    fold_all(journals)
    again = finish_run(journals, [2, 30])
    for what in ("2", "log:2", "idu=2"):
        stories = explain(journals.root, what)
        assert [story.run for story in stories if story.position == "2"] == [runs[0], again]
    assert [story.run for story in explain(journals.root, "8")] == [runs[2]]
    assert {story.run for story in explain(journals.root, "idu=3,table=usr")} > {runs[0]}
    with pytest.raises(
        UsageError, match=r"job job has no record '999': give a position as a record_id"
    ):
        explain(journals.root, "999")


def test_records_are_found_while_runs_move_and_segments_are_merged(journals: Journals) -> None:
    (run,) = finish_runs(journals, 1)
    copy_runs(journals, run, 40)
    stop, counts = threading.Event(), []

    def move() -> None:
        steps = folding(journals, largest=SMALL._replace(runs=2))
        while steps.step() and not stop.is_set():
            pass
        steps = folding(journals)
        while steps.step() and not stop.is_set():
            pass

    thread = threading.Thread(target=move)
    thread.start()
    try:
        while thread.is_alive():
            counts.append(len(explain(journals.root, "2")))
            assert explain(journals.root / "job-000020", "2")
    finally:
        stop.set()
        thread.join()
    assert counts == [41] * len(counts)
    assert len(counts) > 1
    assert segment_names(journals) == ["000001-000040"]


def test_a_journal_that_dispatch_reads_stays(journals: Journals) -> None:
    runs = finish_runs(journals, 4)
    with lock_directory(journals.root / runs[1]):
        fold_all(journals)
        assert runs_with_folder(journals) == runs[1:]
    fold_all(journals)
    assert runs_with_folder(journals) == runs[3:]


def test_retry_finds_failed_records_in_segments(journals: Journals) -> None:
    finish_run(journals, [1, 2], refused=False)
    finish_run(journals, [3, 5, 10], refused=False)
    finish_run(journals, [8, 9], refused=True)
    finish_run(journals, [15], refused=False)

    def failed_records() -> tuple[list[int], frozenset[str]]:
        found = select_failed_records(
            (
                JournaledRun(journal, manifest, 0, refusals_of(journal))
                for journal, manifest in open_runs(journals, runs_with_failures)
            ),
            RetrySelection(),
        )
        return found.ids.tolist(), found.reasons

    before = failed_records()
    assert before == ([5, 8, 10, 15], frozenset({"event-type", "too-large"}))
    fold_all(journals)
    (segment,) = journals.segments.current()
    assert runs_with_failures(segment) == [2, 3]
    assert failed_records() == before


def refusals_of(journal: Journal) -> RefusedDocuments:
    return refused_documents(
        refusal for record in read_records(journal) for refusal in record.refusals
    )


def test_documents_of_a_segment_can_be_sent_again(journals: Journals, tmp_path: Path) -> None:
    runs = finish_runs(journals, 3)
    dispatch(journals.root / runs[0], str(tmp_path / "before"), defaults())
    fold_all(journals)
    assert dispatch(journals.root / runs[0], str(tmp_path / "after"), defaults()).documents
    assert dispatch(journals.root / runs[0], str(tmp_path / "after"), defaults()).state == (
        "already published"
    )
    for name in ("part-00000.xds", "part-00001.xds", "rejects.jsonl"):
        content = (tmp_path / "after" / name).read_bytes()
        assert content == (tmp_path / "before" / name).read_bytes()
    assert explain(tmp_path / "after", "1")[0].position == "1"


def test_only_finished_runs_before_the_newest_move(journals: Journals) -> None:
    first = finish_run(journals, [1])
    unsent, _ = plan_run(journals, [2])
    finish_run(journals, [3])
    finish_run(journals, [4])
    fold_all(journals)
    assert segment_names(journals) == ["000001-000001"]
    assert [manifest.run for _, manifest in journals.unsent_runs()] == [unsent.root.name]
    unsent.mark_sent()
    fold_all(journals)
    assert segment_names(journals) == ["000001-000001", "000002-000003"]
    assert runs_with_folder(journals) == ["job-000004"]
    assert journals.create_run() == "job-000005"
    assert contents_of(journals, first)["sent"]


def test_few_runs_stay(journals: Journals) -> None:
    finish_runs(journals, 4)
    assert not folding(journals, least=4).step()
    assert folding(journals, least=3).step()


@pytest.mark.parametrize("kind", ["files", "state", "large", "damaged"])
def test_runs_with_files_or_records_in_states_and_large_or_damaged_ones_stay(
    journals: Journals, kind: str
) -> None:
    runs = finish_runs(journals, 3)
    path = journals.root / runs[1] / "manifest.json"
    content = json.loads(path.read_text())
    if kind == "files":
        content["sources"][0]["files"] = [{"path": "/in/a.csv", "bytes": 1}]
    elif kind == "state":
        held = SourceEntry("held", "linkexpress", (), {}, {}, 0, origin=ORIGIN)
        content["sources"].append(asdict(held))
        content["states"] = ["held"]
    elif kind == "damaged":
        (path.parent / "lane-00001.decisions.parquet").unlink()
    else:
        content["records_read"] = 1_000_000
    path.write_text(json.dumps(content))
    fold_all(journals)
    assert runs_with_folder(journals) == runs[1:]
    assert segment_names(journals) == ["000001-000001"]


def test_segments_are_merged(journals: Journals) -> None:
    make_segments(journals, 20)
    before = contents_of_all(journals, ["job-000001", "job-000013", "job-000020"])
    fold_all(journals)
    assert segment_names(journals) == ["000001-000020"]
    assert count_runs_in_segments(journals) == 20
    assert contents_of_all(journals, before) == before
    assert [story.run for story in explain(journals.root, "2")] == [
        journals.run_id(number) for number in range(1, 22)
    ]


def test_merged_segments_are_not_larger_than_allowed(journals: Journals) -> None:
    make_segments(journals, 20)
    steps = folding(journals, largest=SMALL._replace(records=5 * 3))
    while steps.step():
        pass
    sizes = [segment.header().runs for segment in journals.segments.current()]
    assert sum(sizes) == 20
    assert max(sizes) == 5


def test_segments_whose_runs_all_ended_long_ago_expire(journals: Journals) -> None:
    old, young = finish_runs(journals, 2, days=9), finish_runs(journals, 2, days=6)
    last = finish_run(journals, [50])
    fold_all(journals)
    assert segment_names(journals) == ["000001-000002", "000003-000004"]
    folding(journals).expire(days=7, runs=None)
    assert segment_names(journals) == ["000003-000004"]
    for run in old:
        with pytest.raises(UsageError, match="is not a journal"):
            explain(journals.root / run, "1")
    assert contents_of_all(journals, [*young, last])
    folding(journals).expire(days=0, runs=None)
    assert segment_names(journals) == []


def test_the_oldest_segments_beyond_the_greatest_number_expire(journals: Journals) -> None:
    for days in (5, 4, 3):
        finish_runs(journals, 2, days=days)
    finish_run(journals, [50])
    fold_all(journals)
    folding(journals).expire(days=7, runs=7)
    assert len(segment_names(journals)) == 3
    folding(journals).expire(days=7, runs=6)
    assert segment_names(journals) == ["000003-000004", "000005-000006"]
    folding(journals).expire(days=7, runs=1)
    assert segment_names(journals) == []


def test_an_older_instance_moves_nothing(journals: Journals) -> None:
    runs = finish_runs(journals, 3)

    def replaced() -> None:
        raise ReplacedError("a newer instance works")

    with pytest.raises(ReplacedError):
        Folding(journals, replaced, SMALL, 1).step()
    assert runs_with_folder(journals) == runs


def test_a_run_in_a_segment_still_proves_progress(journals: Journals) -> None:
    runs = finish_runs(journals, 3)
    with open_journal(journals.root / runs[0]) as journal:
        manifest = journal.manifest()
    assert manifest is not None
    fold_all(journals)
    lineage = Lineage.read(journals)
    assert lineage.find_problem(lineage.identity, runs[0], manifest.plan) is None
    problem = lineage.find_problem(lineage.identity, runs[0], "other")
    assert problem is not None
    assert "has other documents" in problem


@pytest.mark.parametrize("version", [0, 99])
def test_a_segment_of_another_version_is_refused(journals: Journals, version: int) -> None:
    runs = finish_runs(journals, 3)
    fold_all(journals)
    (path,) = (journals.root / "segments").glob("*/segment.json")
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"format": version, "program": "xds-publisher 7"}))
    for name in ("runs", "decisions", "documents", "lookups"):
        (path.parent / f"{name}.parquet").unlink()  # nothing of it may be read before
    for work in (
        journals.segments.check_versions,
        lambda: explain(journals.root, "1"),
        folding(journals).step,
        lambda: folding(journals).expire(days=7, runs=None),
    ):
        with pytest.raises(
            FatalError,
            match=f"format {version}, this program reads format {SEGMENT_FORMAT}: use xds",
        ):
            work()
    assert runs_with_folder(journals) == runs[-1:]


def test_a_damaged_segment_is_noticed(journals: Journals) -> None:
    runs = finish_runs(journals, 3)
    fold_all(journals)
    (path,) = (journals.root / "segments").glob("*/decisions.parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(
        FatalError, match=r"(?s)cannot be read .*: restore it, or remove the directory"
    ):
        contents_of(journals, runs[0])


class KilledFold(BaseException):
    """The end of the process."""


_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "shutil.rmtree")


class KillSwitch:
    """Kills the process at a change of the disk."""

    def __init__(self) -> None:
        self.left: int | None = None

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.left is None or event not in _CHANGES:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise KilledFold

    @contextmanager
    def after(self, changes: int) -> Iterator[None]:
        """Lets so many changes happen."""
        self.left = changes
        try:
            yield
        finally:
            self.left = None


@pytest.fixture(scope="module")
def kill_switch() -> KillSwitch:
    """Hears of all changes of the disk from now on: a process cannot remove an audit hook.

    It slows down all later tests of the process, so that importing this module must not add it.
    """
    switch = KillSwitch()
    sys.addaudithook(switch)
    return switch


@pytest.mark.parametrize("work", ["fold", "merge", "expire"])
def test_a_kill_between_any_two_steps_loses_and_doubles_nothing(
    tmp_path: Path, journals: Journals, work: str, kill_switch: KillSwitch
) -> None:
    """Restores the directory, kills the work after so many changes of the disk, and starts again."""
    if work == "merge":
        make_segments(journals, 16)
    else:
        finish_runs(journals, 3, days=9 if work == "expire" else 0)
        if work == "expire":
            fold_all(journals)
    last = journals.last_number()
    runs = [journals.run_id(number) for number in (1, last - 1, last)]
    before = contents_of_all(journals, runs)
    backup = shutil.copytree(journals.root, tmp_path / "backup")

    def carry_out() -> None:
        if work == "expire":
            folding(journals).expire(days=7, runs=None)
        else:
            folding(journals).step()

    for changes in chain(range(20), count(20, 30)):
        shutil.rmtree(journals.root)
        shutil.copytree(backup, journals.root)
        try:
            with kill_switch.after(changes):
                carry_out()
            break
        except KilledFold:
            pass
        if work != "expire":
            journals.discard_incomplete()
            assert contents_of_all(journals, runs) == before
        assert journals.last_number() == last
        fold_all(journals)
        if work == "expire":
            folding(journals).expire(days=7, runs=None)
            assert segment_names(journals) == []
            assert contents_of(journals, runs[-1]) == before[runs[-1]]
        else:
            assert contents_of_all(journals, runs) == before
            assert runs_with_folder(journals) == runs[-1:]
            assert count_runs_in_segments(journals) == last - 1
            assert not [name for name in segment_names(journals) if name.startswith(".")]
    assert changes > 5

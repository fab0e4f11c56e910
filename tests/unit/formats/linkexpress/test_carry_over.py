"""A transaction of a group that goes on in the next file: of the same run, or of a later one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.config.job_file import load
from publisher.errors import FatalError
from publisher.formats.contract import CarryOver, Context
from publisher.formats.files.file_splits import Split
from publisher.formats.linkexpress import Linkexpress
from publisher.formats.live.table_split import TableSplit
from publisher.ledger.conservation import RunReport
from publisher.model.catalogue import JobCatalogue
from publisher.model.change import TALLY, Outcome
from publisher.reports.explain import explain
from publisher.runs.job import Job
from publisher.runs.publish import publish as publish_job
from publisher.runs.rehearse import rehearse
from publisher.runs.replay import replay
from tests.support.linkexpress_files import (
    GROUP,
    OPEN,
    Record,
    jack,
    mark,
    record,
    record_text,
)
from tests.support.linkexpress_jobs import JOB, inserts, published_keys
from tests.support.local_engine import EngineSwitch, ScriptedEngine
from tests.support.prepare import prepare_here
from tests.support.raw_records import raw_record

SOURCE = Linkexpress(GROUP)
MARK = mark(GROUP)


SIZE = len(inserts(1))
WRONG = record(GROUP, *jack(7, name=b"\x81\xff      "))
STRANGE = inserts(8)[:6] + (9).to_bytes(2, "big") + inserts(8)[8:]
SWAPPED = b"".join(record(GROUP, *jack(idu), order="little") for idu in (1, 2))


class ExtractFolder:
    """Files of a source, and what its runs keep."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = 0
        self.before: Path | None = None

    def write(self, **files: bytes) -> list[Path]:
        for name, data in files.items():
            (self.path / name).write_bytes(data)
        return [self.path / name for name in files]

    def run(self, wanted: int = 1, **files: bytes) -> list[Record]:
        """The records of a run that reads these files."""
        self.runs += 1
        kept = CarryOver(self.before, self.path / f"state{self.runs}")
        paths = self.write(**files)
        with prepare_here(SOURCE, paths, wanted, JobCatalogue(()), carry_over=kept) as prepared:
            splits = prepared.splits
        if kept.after.is_dir():
            self.before = kept.after
        return read(splits)


def read(splits: Sequence[Split | TableSplit]) -> list[Record]:
    records, framed = [], 0
    for number, split in enumerate(splits):
        assert isinstance(split, Split)
        for batch in SOURCE.read(split, number, Context(0, 4, JobCatalogue(()))):
            for row in batch.to_pylist():
                if row["outcome"] == TALLY:
                    framed += row["row"]
                else:
                    raw = raw_record(SOURCE, split, row["row"])
                    assert raw is not None
                    assert json.loads(raw)["offset"] == row["high"]
                    records.append(row)
    assert framed == len(records)
    assert len({row["rank"] for row in records}) == len(records)
    return sorted(records, key=lambda row: row["rank"])


def place_texts(records: Sequence[Record]) -> list[str]:
    """Records as ``FILE:OFFSET idu transaction``, with what is not a change in words."""
    found = []
    for row in records:
        words = record_text(row).split()
        what = words[2] if words[0] == "held" else words[1]
        held = "held " if words[0] == "held" else ""
        found.append(f"{held}{row['part']}:{row['high']} {what} {row['transaction']}")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> ExtractFolder:
    return ExtractFolder(tmp_path)


TAIL = SIZE + len(MARK)


def test_what_is_held_is_read_with_the_next_file(folder: ExtractFolder) -> None:
    first = folder.run(a=inserts(1) + MARK + inserts(2, 3))
    tail = f"a:{TAIL} idu=2 a:{TAIL}", f"a:{TAIL + SIZE} idu=3 a:{TAIL}"
    assert place_texts(first) == [
        "a:0 idu=1 a:0",
        f"a:{SIZE} commit None",
        *(f"held {t}" for t in tail),
    ]
    second = folder.run(b=MARK + inserts(4) + MARK)
    after = len(MARK)
    assert place_texts(second) == [
        *tail,
        "b:0 commit None",
        f"b:{after} idu=4 b:{after}",
        f"b:{after + SIZE} commit None",
    ]
    assert place_texts(folder.run(c=inserts(5) + MARK)) == [
        "c:0 idu=5 c:0",
        f"c:{SIZE} commit None",
    ]


def test_a_transaction_goes_on_through_several_files(folder: ExtractFolder) -> None:
    assert place_texts(folder.run(a=inserts(1))) == ["held a:0 idu=1 a:0"]
    assert place_texts(folder.run(b=inserts(2))) == ["held a:0 idu=1 a:0", "held b:0 idu=2 a:0"]
    assert place_texts(folder.run(c=b"")) == ["held a:0 idu=1 a:0", "held b:0 idu=2 a:0"]
    last = folder.run(d=inserts(3) + MARK + inserts(4))
    assert place_texts(last) == [
        "a:0 idu=1 a:0",
        "b:0 idu=2 a:0",
        "d:0 idu=3 a:0",
        f"d:{SIZE} commit None",
        f"held d:{TAIL} idu=4 d:{TAIL}",
    ]
    assert place_texts(folder.run(e=MARK)) == [f"d:{TAIL} idu=4 d:{TAIL}", "e:0 commit None"]


def test_several_files_of_one_run_are_one_sequence(folder: ExtractFolder) -> None:
    paths = folder.write(
        a=inserts(1) + MARK + inserts(2), b=inserts(3), c=inserts(4) + MARK + inserts(5)
    )
    records = read(SOURCE.splits(paths, 1))
    assert [text.split()[-1] for text in place_texts(records)] == [
        "a:0", "None", f"a:{TAIL}", f"a:{TAIL}", f"a:{TAIL}", "None", f"c:{TAIL}",
    ]  # fmt: skip
    assert [record_text(row).startswith("held") for row in records] == [False] * 6 + [True]


def test_a_file_in_the_other_byte_order_is_read_again_in_it(folder: ExtractFolder) -> None:
    folder.run(a=SWAPPED)
    found = [record_text(row).split()[1] for row in folder.run(b=MARK)]
    assert found == ["idu=1", "idu=2", "commit"]


def outcomes(records: Sequence[Record]) -> list[tuple[int, str]]:
    """Returns the places of records, and the first word of their text."""
    return [(row["high"], record_text(row).split()[0]) for row in records]


def test_what_is_kept_stands_where_it_stood_whatever_is_left_out_between(
    folder: ExtractFolder,
) -> None:
    tail = inserts(1) + WRONG + inserts(2, 3) + STRANGE * 2 + inserts(4, 5)
    ids = [0, 2, 3, 6, 7]  # of the records, in sizes of one
    places = [TAIL + SIZE * each for each in ids]
    first = folder.run(a=inserts(9) + MARK + tail)
    assert [at for at, what in outcomes(first) if what == "held"] == places
    assert [at for at, what in outcomes(first) if what == "rejected"] == [
        TAIL + SIZE * each for each in (1, 4, 5)
    ]
    again = folder.run(b=WRONG + inserts(6))
    assert outcomes(again) == [*((at, "held") for at in places), (0, "rejected"), (SIZE, "held")]
    last = folder.run(c=MARK)
    names = [f"a:{at} held-back" for at in places]
    assert place_texts(last) == [f"{name} a:{TAIL}" for name in (*names, f"b:{SIZE} held-back")] + [
        "c:0 commit None"
    ]
    assert f"its record at a:{TAIL + SIZE}: item 2" in last[0]["detail"]


def test_a_transaction_keeps_its_name_where_its_first_record_is_rejected(
    folder: ExtractFolder,
) -> None:
    folder.run(a=MARK + WRONG + inserts(1))
    at = len(MARK)
    assert place_texts(folder.run(b=inserts(2) + MARK))[:2] == [
        f"a:{at + SIZE} held-back a:{at}",
        f"b:0 held-back a:{at}",
    ]


def test_of_a_tail_of_rejected_records_the_reject_alone_is_kept(folder: ExtractFolder) -> None:
    assert outcomes(folder.run(a=MARK + WRONG))[1:] == [(len(MARK), "rejected")]
    assert outcomes(folder.run(b=b"")) == []
    assert outcomes(folder.run(c=inserts(1) + MARK)) == [(0, "rejected"), (SIZE, "ignored")]
    assert outcomes(folder.run(d=inserts(1) + MARK)) == [(0, "1"), (SIZE, "ignored")]


@pytest.mark.parametrize("version", [3, 5])
def test_what_another_version_kept_is_refused(folder: ExtractFolder, version: int) -> None:
    folder.run(a=MARK + inserts(1))
    assert folder.before is not None
    index = folder.before / "held.json"
    entries = json.loads(index.read_text())["held"]
    index.write_text(json.dumps({"format": version, "held": entries}))
    with pytest.raises(FatalError, match=f"has format {version}, this program reads format 4: use"):
        folder.run(b=MARK)


def test_nothing_is_kept_where_nothing_is_held(folder: ExtractFolder) -> None:
    folder.run(a=inserts(1) + MARK)
    assert not (folder.path / "state1").exists()
    folder.run(b=inserts(1))
    folder.run(c=MARK)
    assert folder.before == folder.path / "state3"
    assert list(folder.before.iterdir()) == []


def test_a_source_that_is_no_group_any_more_says_what_to_do(folder: ExtractFolder) -> None:
    folder.run(a=inserts(1))
    (path,) = folder.write(b=record(OPEN, *jack(1)))
    kept = CarryOver(folder.before, folder.path / "after")
    with (
        pytest.raises(FatalError, match="restore unit and extract, or give it a new name"),
        prepare_here(Linkexpress(OPEN), [path], 1, JobCatalogue(()), carry_over=kept),
    ):
        pass


@pytest.mark.parametrize("damage", ["gone", "cut", "form"])
def test_a_damaged_state_is_an_error(folder: ExtractFolder, damage: str) -> None:
    folder.run(a=inserts(1))
    assert folder.before is not None
    index = folder.before / "held.json"
    if damage == "gone":
        shutil.rmtree(folder.before / "00000")
    else:
        text = index.read_text()
        index.write_text(text[:-3] if damage == "cut" else text.replace("big", "upside down"))
    with pytest.raises(FatalError, match=r"held\.json is damaged"):
        folder.run(b=MARK)


def settle(records: Sequence[Record]) -> list[str]:
    """Settles the records of a run: a rejected one rejects its transaction."""
    torn = {row["transaction"] for row in records if row["outcome"] == Outcome.REJECTED}
    return [
        "rejected held-back"
        if row["outcome"] is None and row["transaction"] in torn
        else record_text(row)
        for row in records
    ]


@settings(max_examples=60)
@given(
    pieces=st.lists(st.sampled_from([1, 2, 3, 0, -1, -2]), min_size=1, max_size=14),
    cuts=st.sets(st.integers(1, 13)),
    wanted=st.sampled_from([1, 5]),
)
def test_however_a_stream_is_cut_into_files_and_runs_the_same_is_published(
    pieces: list[int], cuts: set[int], wanted: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = {0: MARK, -1: inserts(1) + WRONG, -2: STRANGE + inserts(2)}
    data = [other.get(piece) or inserts(piece) for piece in pieces]
    folder = ExtractFolder(tmp_path_factory.mktemp("cut"))
    starts = sorted({0, *(cut for cut in cuts if cut < len(data))})
    files = [b"".join(data[a:b]) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    published, held = [], []
    for number, file in enumerate(files):
        found = settle(folder.run(wanted, **{f"f{number:02d}": file}))
        held = [text.removeprefix("held ") for text in found if text.startswith("held")]
        published += [text for text in found if not text.startswith("held")]
    whole = settle(read(SOURCE.splits(folder.write(whole=b"".join(data)), wanted)))
    once = [text for text in whole if not text.startswith("held")]
    # a record is rejected at once, before what is held until a commit record comes
    for reason in ("rejected value", "rejected table-name", "rejected held-back"):
        assert published.count(reason) == once.count(reason)
    assert [text for text in published if not text.startswith("rejected")] == [
        text for text in once if not text.startswith("rejected")
    ]
    assert held == [text.removeprefix("held ") for text in whole if text.startswith("held")]


@pytest.fixture
def job(tmp_path: Path, local_engine: EngineSwitch) -> Path:
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "in").mkdir()
    return tmp_path


def publish(job: Path, more: str = "") -> RunReport:
    (job / "job.toml").write_text(JOB + more)
    return publish_job(load(job / "job.toml"))


def test_a_job_publishes_what_it_held_with_the_next_file(job: Path) -> None:
    (job / "in" / "1").write_bytes(inserts(1) + MARK + inserts(2, 3))
    first = publish(job)
    assert (first.read, first.outcomes["held"], first.documents) == (4, 2, 1)
    assert publish(job, "[ledger]\nretention_days = 0\n").state == "nothing new to read"
    assert not Path(first.ledger).exists()
    (job / "in" / "2").write_bytes(MARK)
    second = publish(job)
    assert (second.read, second.outcomes["published"], second.outcomes["ignored"]) == (3, 2, 1)
    assert second.notes == ("read again: 2 record(s) of hr, which an earlier run had held",)
    assert published_keys(job / "out") == ["idu=1", "idu=2", "idu=3"]
    (story,) = explain(Path(second.ledger), f"1:{TAIL}")
    assert story.raw is not None
    assert json.loads(story.raw)["hex"] == inserts(2).hex()
    (job / "in" / "3").write_bytes(inserts(4) + MARK)
    assert publish(job).notes == ()


def test_a_job_rejects_a_record_once(job: Path) -> None:
    (job / "in" / "1").write_bytes(inserts(1) + MARK + inserts(2) + WRONG + inserts(3))
    first = publish(job)
    assert (first.read, first.outcomes["held"], first.outcomes["rejected"]) == (5, 2, 1)
    (job / "in" / "2").write_bytes(MARK)
    second = publish(job)
    assert (second.read, second.outcomes["published"], second.outcomes["rejected"]) == (3, 0, 2)
    assert second.notes == ("read again: 2 record(s) of hr, which an earlier run had held",)
    assert published_keys(job / "out") == ["idu=1"]
    (story,) = explain(Path(second.ledger), f"1:{TAIL + 2 * SIZE}")
    assert story.raw is not None
    assert json.loads(story.raw)["hex"] == inserts(3).hex()


def test_a_run_that_is_thrown_away_keeps_what_was_held(job: Path) -> None:
    (job / "in" / "1").write_bytes(inserts(1))
    publish(job)
    (job / "in" / "2").write_bytes(MARK)
    with (
        Job(load(job / "job.toml"), ScriptedEngine(FatalError("a task failed: fix it"))) as failing,
        pytest.raises(FatalError, match="a task failed"),
    ):
        failing.run()
    report = publish(job)
    assert (report.read, report.documents) == (2, 1)


def test_a_rehearsal_goes_on_and_keeps_nothing(job: Path) -> None:
    (job / "in" / "1").write_bytes(inserts(1))
    publish(job)
    (job / "in" / "2").write_bytes(MARK + inserts(2))
    settings = load(job / "job.toml")
    for _ in range(2):
        report = rehearse(settings)
        assert (report.read, report.outcomes["held"], report.documents) == (3, 1, 1)
        assert report.notes[0].startswith("read again: 1 record(s) of hr")
    assert publish(job).documents == 1
    assert rehearse(settings).state == "nothing new to read"


def test_a_replay_goes_on_with_nothing(job: Path) -> None:
    (job / "in" / "1").write_bytes(inserts(1))
    publish(job)
    settings = replace(load(job / "job.toml"), name="replay")
    (job / "2").write_bytes(MARK + inserts(2))
    report = replay(settings, [job / "2"], str(job / "replayed"))
    assert report.outcomes["held"] == report.outcomes["ignored"] == 1
    assert not (job / "replayed" / "_ledger" / "state").exists()
    both = replay(settings, [job / "in" / "1", job / "2"], str(job / "both"))
    assert (both.documents, both.outcomes["held"]) == (1, 1)


def test_files_behind_a_refused_one_wait_for_it(job: Path) -> None:
    whole = inserts(3) + MARK
    (job / "in" / "1").write_bytes(inserts(1) + MARK + inserts(2))
    (job / "in" / "2").write_bytes(whole[:-1])
    (job / "in" / "3").write_bytes(inserts(4) + MARK)
    first = publish(job)
    assert published_keys(job / "out") == ["idu=1"]
    (note,) = first.notes
    assert f"2: the record at byte {SIZE} does not fit the settings" in note
    assert "the file is left out" in note
    assert note.endswith("; 1 file(s) behind it wait")
    assert publish(job).state == "nothing new to read"
    (job / "in" / "2").write_bytes(whole)
    publish(job)
    assert published_keys(job / "out") == ["idu=1", "idu=2", "idu=3", "idu=4"]


def test_a_file_of_rejected_records_is_read_again_unless_a_transaction_leaves_it(job: Path) -> None:
    (job / "in" / "1").write_bytes(WRONG)
    (job / "in" / "2").write_bytes(MARK)
    assert publish(job).outcomes["rejected"] == 1
    assert publish(job).state == "nothing new to read"
    (job / "in" / "1").write_bytes(inserts(1))
    with pytest.raises(FatalError, match="when it was published"):
        publish(job)

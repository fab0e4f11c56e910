"""The ledger of a job: numbers of runs, their end, requests, and the first documents of a directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from publisher.errors import FatalError, ReplacedError
from publisher.ledger.event_ids import SourceEpoch
from publisher.ledger.instance import Epoch
from publisher.ledger.job import Ledger, Leftovers, RequestWatch
from publisher.ledger.lane_rows import first_documents
from publisher.ledger.manifest import Manifest, RunEnd
from tests.support.finished_runs import finish_runs, make_ledgers, plan_run
from tests.support.ledgers import PlannedDocument, commit_run


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return make_ledgers(tmp_path)


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
def test_first_documents_are_of_all_lanes_in_turn(
    tmp_path: Path, parts: list[str], shown: str
) -> None:
    planned = [[PlannedDocument(1, text) for text in texts] for texts in parts]
    run, manifest = commit_run(tmp_path, planned)
    assert "".join(first_documents(run.lanes(manifest), 3)) == shown


def test_an_older_instance_throws_away_no_run_of_a_newer_one(ledger: Ledger) -> None:
    identity = ledger.open_identity()
    older = Epoch(ledger, ledger.begin_epoch(), identity)
    assert ledger.discard_incomplete(older) == []
    newer = Epoch(ledger, ledger.begin_epoch(), identity)
    run = ledger.create_run()
    with pytest.raises(ReplacedError, match="a newer instance of the job"):
        ledger.discard_incomplete(older)
    assert (ledger.root / run).is_dir()
    assert ledger.discard_incomplete(newer) == [run]
    assert not (ledger.root / run).exists()


def test_the_number_of_a_run_that_was_removed_is_not_used_again(ledger: Ledger) -> None:
    assert [ledger.create_run(), ledger.create_run()] == ["job-000001", "job-000002"]
    assert ledger.discard_incomplete() == ["job-000001", "job-000002"]
    assert ledger.last_number() == 2
    assert ledger.create_run() == "job-000003"
    ledger.discard("job-000003")  # found nothing new: the next run may have its number
    assert ledger.create_run() == "job-000003"
    ledger.discard("job-000003")
    ledger.skip_to(7)
    assert ledger.create_run() == "job-000008"


def test_a_number_that_a_newer_instance_has_passed_is_not_returned(ledger: Ledger) -> None:
    idle, newer = ledger.create_run(), ledger.create_run()
    ledger.discard(idle)
    assert ledger.last_run() == newer


def test_a_committed_run_waits_until_it_is_finished(ledger: Ledger) -> None:
    first, manifest = plan_run(ledger, [1, 2])
    _, later = plan_run(ledger, [3])
    incomplete = ledger.create_run()
    assert [found for _, found in ledger.unsent_runs()] == [manifest, later]
    assert ledger.incomplete_runs() == [incomplete]
    assert not first.sent_at
    end = RunEnd(notes=("late: 2 records",), seconds={"plan": 0.5}, engine="local")
    ledger.finish(first, manifest, end, greatest={"log": 2}, leftovers={"log": Leftovers("a")})
    assert [found for _, found in ledger.unsent_runs()] == [later]
    assert first.acknowledgement == end
    assert first.sent_at > 0
    assert not first.root.exists()  # the ledger has its rows
    assert ledger.greatest_ids() == {"log": 2}
    assert ledger.leftovers()["log"] == Leftovers("a")
    assert ledger.without_unsent_runs().hidden == {2}


def test_a_run_ends_completely_or_not_at_all(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, manifest = plan_run(ledger, [1, 2])

    def fail(*_: object) -> None:
        raise OSError("full")

    with monkeypatch.context() as patched:
        patched.setattr("publisher.ledger.event_ids.EpochsOfJob.note_run", fail)
        with pytest.raises(OSError, match="full"):
            ledger.finish(run, manifest, RunEnd(), greatest={"log": 2}, leftovers={})
    assert not run.sent_at
    assert ledger.greatest_ids() == {}
    assert [found for _, found in ledger.unsent_runs()] == [manifest]


def finish(ledger: Ledger, ids: list[int], greatest: int, leftovers: Leftovers) -> Manifest:
    run, manifest = plan_run(ledger, ids)
    ledger.finish(
        *(run, manifest, RunEnd()), greatest={"log": greatest}, leftovers={"log": leftovers}
    )
    return manifest


def test_a_source_remembers_more_than_its_last_run(ledger: Ledger) -> None:
    finish(ledger, [1, 2, 9], 9, Leftovers("x", frozenset({1 << 60})))
    finish(ledger, [3], 3, Leftovers())
    ledger.expire(days=0)
    assert ledger.greatest_ids() == {"log": 9}
    assert ledger.leftovers() == {"log": Leftovers()}
    assert ledger.epochs().read() == {"log": SourceEpoch(1, 1, None, {"": 9})}
    assert [origin.name for origin in ledger.origins()] == ["log"]
    ledger.forget_greatest(["log", "other"])
    assert ledger.greatest_ids() == {}


def test_epochs_of_sources_are_kept_and_adopted(ledger: Ledger) -> None:
    epochs = ledger.epochs()
    assert epochs.numbers() == {}
    finish(ledger, [1, 4], 4, Leftovers())
    epochs.write({"log": epochs.read()["log"].next(2), "hr": SourceEpoch(5, 3, "t", {"a": 7})})
    assert epochs.read() == {"log": SourceEpoch(2, 2), "hr": SourceEpoch(5, 3, "t", {"a": 7})}
    finish(ledger, [5], 5, Leftovers())  # planned in epoch 1
    assert epochs.read()["log"] == SourceEpoch(2, 2)
    epochs.adopt({"log": 4, "hr": 5, "crm": 1})
    assert epochs.numbers() == {"log": 4, "hr": 5, "crm": 1}
    assert epochs.read()["hr"] == SourceEpoch(5, 3, "t", {"a": 7})


def test_values_of_a_job_are_kept(ledger: Ledger) -> None:
    again = Ledger(ledger.root, "job")
    assert [ledger.raise_lanes(wanted) for wanted in (4, 2, 8, 1)] == [4, 4, 8, 8]
    assert again.raise_lanes(3) == 8
    ledger.begin_recovery()
    with pytest.raises(FatalError, match=r"a recovery in .* was interrupted: run"):
        again.refuse_interrupted_recovery()
    ledger.end_recovery()
    again.refuse_interrupted_recovery()
    finish_runs(ledger, 2)
    ledger.doubt()
    assert again.doubted == 2
    ledger.remember_topics({"a": "1", "b": "2"})
    ledger.remember_topics({"b": "3"})
    assert again.topics() == {"b": "3"}


def test_requests_are_answered_in_their_order(ledger: Ledger) -> None:
    watch = RequestWatch(ledger)
    assert not watch()
    numbers = [ledger.add_request(f"{n}") for n in range(3)]
    ledger.remove_request(numbers[1])
    assert ledger.open_requests() == [(numbers[0], "0"), (numbers[2], "2")]
    ledger.answer_request(numbers[0], "yes")
    ledger.answer_request(numbers[1], "nobody waits")
    assert [ledger.answer_to(number) for number in numbers] == ["yes", None, None]
    assert ledger.open_requests() == [(numbers[2], "2")]
    ledger.begin_epoch()
    assert [ledger.answer_to(number) for number in numbers] == [None, None, None]
    assert [number for number, _ in ledger.open_requests()] == [numbers[2]]


def test_a_watch_sees_requests_of_other_programs(ledger: Ledger, tmp_path: Path) -> None:
    watch = RequestWatch(ledger)
    assert not watch()
    program = "import sys; from pathlib import Path; from publisher.ledger.job import Ledger; "
    add = f"{program}Ledger(Path(sys.argv[1]), 'job').add_request('{{}}')"
    subprocess.run([sys.executable, "-c", add, ledger.root], check=True)
    assert watch()
    (request,) = ledger.open_requests()
    ledger.answer_request(request[0], "yes")
    assert not watch()

"""Of several instances of a job the newest works."""

from __future__ import annotations

import pickle
import shutil
import threading
from pathlib import Path

import pytest

from publisher.errors import FatalError, ReplacedError
from publisher.ledger.instance import Epoch
from publisher.ledger.job import Ledger


def begin_epoch(root: Path) -> Epoch:
    ledger = Ledger(root, "hr")
    identity = ledger.open_identity()
    return Epoch(ledger, ledger.begin_epoch(), identity)


def test_the_newest_instance_works_and_the_older_stops(tmp_path: Path) -> None:
    older = begin_epoch(tmp_path / "hr")
    older()
    newer = begin_epoch(tmp_path / "hr")
    newer()
    with pytest.raises(ReplacedError) as caught:
        older()
    assert caught.value.message == (
        f"a newer instance of the job works in {tmp_path / 'hr'} (epoch 2, this one has 1): this "
        "instance stops; run one instance at a time"
    )
    newer()


def test_an_older_instance_never_comes_back(tmp_path: Path) -> None:
    instances = [begin_epoch(tmp_path) for _ in range(4)]
    for older in instances[:-1]:
        with pytest.raises(ReplacedError, match=f"epoch 4, this one has {older.number}"):
            older()
    instances[-1]()


def test_jobs_have_epochs_of_their_own(tmp_path: Path) -> None:
    one, other = begin_epoch(tmp_path / "one"), begin_epoch(tmp_path / "other")
    one()
    other()
    assert one.number == other.number == 1


def test_starts_at_the_same_time_get_one_ledger_and_different_epochs(tmp_path: Path) -> None:
    found: list[Epoch] = []
    threads = [
        threading.Thread(target=lambda: found.append(begin_epoch(tmp_path / "job")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epoch.number for epoch in found) == list(range(1, 9))
    assert {epoch.identity for epoch in found} == {Ledger(tmp_path / "job", "hr").identity()}


def test_tasks_ask_it_too(tmp_path: Path) -> None:
    older = begin_epoch(tmp_path)
    in_a_task: Epoch = pickle.loads(pickle.dumps(older))
    in_a_task()
    begin_epoch(tmp_path)
    with pytest.raises(ReplacedError, match="a newer instance"):
        in_a_task()


def test_a_start_that_is_refused_begins_no_epoch(tmp_path: Path) -> None:
    older = begin_epoch(tmp_path)

    def refuse() -> None:
        raise FatalError("followed")

    with pytest.raises(FatalError, match="followed"):
        older.ledger.begin_epoch(refuse)
    older()


def test_an_epoch_of_a_removed_ledger_is_over(tmp_path: Path) -> None:
    epoch = begin_epoch(tmp_path / "job")
    shutil.rmtree(tmp_path / "job")
    with pytest.raises(FatalError, match=r"removed or replaced .*epoch 0, this one has 1"):
        epoch()


def test_an_epoch_of_a_directory_that_was_created_again_is_over(tmp_path: Path) -> None:
    epoch = begin_epoch(tmp_path / "job")
    epoch()
    shutil.rmtree(tmp_path / "job")
    newer = begin_epoch(tmp_path / "job")
    assert newer.number == epoch.number
    newer()
    with pytest.raises(FatalError, match="removed or replaced"):
        epoch()

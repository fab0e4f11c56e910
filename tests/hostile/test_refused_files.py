"""Binary files whose framing does not fit: ``replay`` refuses them, ``publish`` leaves them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dispatch_queue_files import Queue, binary
from tests.support.dispatch_queue_files import jack as queue_image
from tests.support.dispatch_queue_jobs import JOB as QUEUE
from tests.support.linkexpress_files import OPEN, jack, record
from tests.support.retried_jobs import EXTRACT
from tests.support.workbench import Workbench

SINK = '[dispatch]\npath = "out"\n'


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


def extract(number: int) -> bytes:
    return record(OPEN, *jack(number))


def queue(number: int) -> bytes:
    rows = Queue(address=number << 20)
    insert = rows.row(2, queue_image(number), TRANSACT_ID=number)
    return binary([insert, rows.row(4, TRANSACT_ID=number)])


@pytest.mark.parametrize("command", ["replay", "inspect"])
def test_a_command_ends_with_the_byte_and_the_field(bench: Workbench, command: str) -> None:
    bench.write("job.toml", EXTRACT)
    bench.write("usr.dat", extract(1) + b"\0\7" + extract(2)[2:])
    to = ("--to", "out") if command == "replay" else ()
    done = bench.run(command, "usr.dat", "-c", "job.toml", *to, codes=[1])
    assert "usr.dat: the record at byte 33 does not fit the settings" in done.err
    assert "OP is 0007, by the settings it is one of 0001 insert" in done.err
    assert not list(bench.folder.rglob("part-*"))


def test_publish_leaves_a_file_out_once_and_publishes_the_others(bench: Workbench) -> None:
    bench.write("job.toml", EXTRACT + SINK)
    for number in (1, 2, 3):
        bench.write(f"in/{number}.dat", extract(number))
    bench.write("in/2.dat", extract(2)[:-1])
    report = bench.publish(codes=[0])
    assert sorted(bench.objects()) == ["idu=1,table=usr,schema=hr", "idu=3,table=usr,schema=hr"]
    (note,) = report["notes"]
    assert "in/2.dat: 32 bytes are not a multiple of the record length 33" in note
    assert "the file is left out, and read again when it or the settings change" in note
    again = bench.publish(codes=[0])
    assert (again["state"], again["notes"]) == ("nothing new to read", [])
    bench.write("job.toml", EXTRACT.replace("CP932", "EUC-JP") + SINK)
    assert "in/2.dat: 32 bytes" in bench.publish(codes=[0])["notes"][0]
    bench.write("in/2.dat", extract(2))
    assert bench.publish(codes=[0])["notes"] == []
    assert len(bench.objects()) == 3


def test_files_behind_a_refused_export_of_a_queue_wait(bench: Workbench) -> None:
    bench.write("job.toml", QUEUE.format(more=""))
    bench.write("in/1.dat", queue(1))
    bench.write("in/2.dat", queue(2)[:-1])
    bench.write("in/3.dat", queue(3))
    (note,) = bench.publish(codes=[0])["notes"]
    assert "in/2.dat: 3595 bytes at offset 3596 are not a whole row" in note
    assert note.endswith("; 1 file(s) behind it wait")
    assert len(bench.objects()) == 1
    assert bench.publish(codes=[0])["state"] == "nothing new to read"
    bench.write("in/2.dat", queue(2))
    bench.publish(codes=[0])
    assert len(bench.objects()) == 3

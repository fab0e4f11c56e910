"""A file that is still written is not published as whole.

A directory reader took a file before its writer had finished, and the end was lost or cut.
"""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.workbench import Workbench, event, log_file

JOB = """
[[sources]]
name = "log"
snapshots = ["in"]
[dispatch]
path = "out"
"""
COMPARED = """
[[sources]]
name = "cmp"
format = "triggerless"
snapshots = ["in"]
key = { usr = ["id"] }
[dispatch]
path = "out"
"""


def test_a_file_that_grew_after_it_was_published_is_named(bench: Workbench) -> None:
    bench.write("job.toml", JOB)
    text = log_file([event("idu=1", 3, "fname", new="a")])
    bench.write("in/log.csv", text + "2,idu=2,N,3,2026-05-01 10:00:00,,usr,fname,,John Sm")
    bench.publish(codes=[0, 4])
    bench.write("in/log.csv", text + "2,idu=2,N,3,2026-05-01 10:00:00,,usr,fname,,John Smith\n")
    done = bench.run("publish", "-c", "job.toml", codes=[1])
    assert "log.csv" in done.err


def test_a_file_that_appears_by_rename_is_published_once(bench: Workbench) -> None:
    bench.write("job.toml", JOB)
    path = bench.write("log.csv.tmp", log_file([event("idu=1", 3, "fname", new="a")]))
    (bench.folder / "in").mkdir()
    bench.publish(codes=None)
    path.rename(bench.folder / "in" / "log.csv")
    bench.publish()
    bench.publish()
    assert len(bench.lines()) == 1


def test_half_an_export_deletes_nothing(bench: Workbench) -> None:
    bench.write("job.toml", COMPARED)
    rows = [f"{n},v{n}" for n in range(400)]
    bench.write("in/usr.csv", "id,v\n" + "\n".join(rows) + "\n")
    bench.publish()
    bench.write("in/usr.csv", "id,v\n" + "\n".join(rows[:150]) + "\n")
    done = bench.run("publish", "-c", "job.toml", codes=[1])
    assert "most_deleted" in done.err
    assert len(bench.objects()) == 400


def test_a_cut_compressed_export_deletes_nothing(bench: Workbench) -> None:
    bench.write("job.toml", COMPARED)
    rows = [f"{n},v{n}" for n in range(400)]
    data = gzip.compress(("id,v\n" + "\n".join(rows) + "\n").encode())
    bench.write("in/usr.csv.gz", data)
    bench.publish()
    bench.write("in/usr.csv.gz", data[:-400])
    bench.run("publish", "-c", "job.toml", "--json", codes=[0, 1, 4])
    assert len(bench.objects()) == 400


@pytest.mark.xfail(reason="The great subtraction 5: files that grow", strict=True)
def test_an_export_that_is_cut_in_its_last_value_is_refused(bench: Workbench) -> None:
    bench.write("job.toml", COMPARED)
    text = "id,v\n" + "".join(f"{n},John Smith {n}\n" for n in range(400))
    bench.write("in/usr.csv", text)
    bench.publish()
    bench.write("in/usr.csv", text[: text.index("340,John") + 9])
    bench.run("publish", "-c", "job.toml", "--json", codes=[0, 1, 4])
    assert len(bench.objects()) == 400


def test_parquet_without_its_footer_is_refused_and_read_later(bench: Workbench) -> None:
    bench.write("job.toml", COMPARED)
    path = bench.write("in/usr.parquet", b"")
    pq.write_table(pa.table({"id": [1, 2], "v": ["a", "b"]}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    done = bench.run("publish", "-c", "job.toml", codes=[0, 1])
    assert "usr.parquet" in done.text
    path.write_bytes(whole)
    bench.publish()
    assert len(bench.objects()) == 2


def test_a_compressed_file_that_is_cut_waits_until_it_is_whole(bench: Workbench) -> None:
    bench.write("job.toml", JOB)
    whole = gzip.compress(
        log_file([event(f"idu={n}", 3, "fname", new="a") for n in range(2000)]).encode()
    )
    bench.write("in/log.csv.gz", whole[: len(whole) // 2])
    bench.write("in/other.csv", log_file([event("idu=9", 3, "fname", new="b")]))
    report = bench.publish()
    assert report["read"] == 1
    assert any("log.csv.gz: the compressed file is cut" in note for note in report["notes"])
    assert bench.publish()["notes"] == []
    bench.write("in/log.csv.gz", whole)
    assert bench.publish()["read"] == 2000
    assert bench.run("replay", "in/log.csv.gz", "--to", "copy").code == 0
    bench.write("in/log.csv.gz", whole[:-3])
    assert (
        "the compressed file is cut"
        in bench.run("replay", "in/log.csv.gz", "--to", "x", codes=[1]).err
    )

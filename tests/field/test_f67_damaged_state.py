"""A damaged state is no fresh start.

An empty state file after a full disk, or one that was read in part, was taken as no state and
overwritten. Whatever is done to a file of the ledger, the next run refuses it by name or publishes what
it would have published.
"""

from __future__ import annotations

import shutil

import pytest

from tests.field.kafka_jobs import log_values, make_log
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

JOB = """
[[sources]]
name = "log"
table = "log"
[[sources]]
name = "cmp"
format = "triggerless"
tables = ["dept"]
[database]
url = "sqlite:///app.db"
[dispatch]
path = "out"
[run]
engine = "local"
lanes = 1
"""
PUBLISH = ("publish", "-c", "job.toml", "--json", "--accept-database")
"""The database is a copy, too."""
DAMAGES = ("emptied", "cut", "flipped", "deleted")


def prepare(bench: Workbench) -> None:
    place = make_log(bench.folder)
    place.execute(
        "CREATE TABLE dept (id integer PRIMARY KEY, v text)",
        "INSERT INTO dept VALUES (1, 'a'), (2, 'b')",
    )
    bench.write("job.toml", JOB)
    for run in range(2):
        log_values(place, {7: f"run {run}"}, first=run * 10 + 1)
        bench.publish()
    place.execute("UPDATE dept SET v = 'c' WHERE id = 2")
    log_values(place, {7: "last"}, first=100)


def damage(data: bytes, how: str) -> bytes:
    if how == "emptied":
        return b""
    if how == "cut":
        return data[: len(data) // 2]
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :]


def test_no_damage_is_taken_for_a_fresh_start(bench: Workbench) -> None:
    origin = Workbench(bench.folder / "origin")
    origin.folder.mkdir()
    prepare(origin)
    whole = bench.folder / "whole"
    shutil.copytree(origin.folder, whole)
    Workbench(whole).run(*PUBLISH)
    expected = Workbench(whole).lines()
    ledgers = origin.folder / ".xds-publisher"
    names = [
        p.relative_to(origin.folder) for p in ledgers.rglob("*") if p.is_file() and p.stat().st_size
    ]
    problems = []
    for number, name in enumerate(sorted(names)):
        for how in DAMAGES:
            copy = Workbench(bench.folder / f"{number}-{how}")
            shutil.copytree(origin.folder, copy.folder)
            path = copy.folder / name
            path.unlink() if how == "deleted" else path.write_bytes(damage(path.read_bytes(), how))
            done = copy.run(*PUBLISH, codes=None)
            lines = copy.lines()
            if "Traceback" in done.err or "unexpected error" in done.err:
                problems.append(f"{name} {how}: {done.err[-200:]}")
            elif lines not in (expected, expected[: len(lines)]) or (
                done.code == 0 and lines != expected
            ):
                problems.append(f"{name} {how}: exit code {done.code}, {len(lines)} documents")
            shutil.rmtree(copy.folder)
    assert problems == []

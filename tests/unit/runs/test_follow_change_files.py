"""Following a folder of change files: halves of a pair that come in two polls."""

from __future__ import annotations

import time
from pathlib import Path

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.engine.local import LocalEngine
from tests.support.change_table_files import record, write
from tests.support.followed_jobs import follow_until_idle

JOB = """
[[sources]]
name = "ct"
format = "change-table"
snapshots = ["usr__ct"]
key = ["idu"]
mask_order = "msb"
header_columns = 7
{more}

[dispatch]
path = "out"
"""
FIRST = [record(1, "I", [0, 1], idu="1", fname="a"), record(5, "B", idu="1", fname="a")]
UPDATE = record(5, "U", [1], idu="1", fname="x")
LATER = record(6, "D", [0], idu="1")


def job(base: Path, more: str = "") -> Settings:
    (base / "usr__ct").mkdir()
    (base / "job.toml").write_text(JOB.format(more=more))
    return load(base / "job.toml")


def operations(base: Path) -> list[str]:
    parts = sorted((base / "out" / "runs").glob("*/part-*.xds"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    return [line.partition("<input><")[2].partition(" ")[0] for line in lines]


def test_halves_in_two_polls_are_one_change_and_what_follows_comes_after_it(
    tmp_path: Path,
) -> None:
    settings = job(tmp_path)
    write(tmp_path / "usr__ct" / "1.csv", [*FIRST, LATER])
    watcher = follow_until_idle(
        settings,
        LocalEngine(),
        lambda: None,
        lambda: write(tmp_path / "usr__ct" / "2.csv", [UPDATE]),
    )
    first, second = (poll.report for poll in watcher.polls)
    assert (first.outcomes["held"], first.reasons) == (2, {"held": {"open-pair": 2}})
    assert (second.read, second.outcomes["published"], second.outcomes["held"]) == (3, 3, 0)
    assert ["read again: 2 record(s)" in note for note in second.notes] == [True]
    assert operations(tmp_path) == ["add", "modify", "delete"]
    assert follow_until_idle(settings, LocalEngine()).events == ["begun", "stop requested"]


def test_a_half_that_stays_alone_is_decided_without_a_new_file(tmp_path: Path) -> None:
    settings = job(tmp_path, "pair_wait = 0.5")
    write(tmp_path / "usr__ct" / "1.csv", [*FIRST, LATER])
    watcher = follow_until_idle(settings, LocalEngine(), lambda: None, lambda: time.sleep(0.6))
    first, second = (poll.report for poll in watcher.polls)
    assert first.outcomes["held"] == 2
    assert second.reasons == {"rejected": {"before-image-alone": 1}}
    assert operations(tmp_path) == ["add", "delete"]
    assert follow_until_idle(settings, LocalEngine()).events == ["begun", "stop requested"]

"""Two publishes in Spark: the second file begins with the commit of the first's last records."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.runs.publish import publish
from tests.support.linkexpress_files import GROUP, jack, mark, record
from tests.support.linkexpress_jobs import JOB, inserts, published_keys

pytestmark = pytest.mark.usefixtures("spark")


def test_what_was_held_is_published_once_and_in_order(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "job.toml").write_text(JOB + "[run]\nlanes = 2\n")
    job = load(tmp_path / "job.toml")
    renamed = record(GROUP, *jack(2, code=2, name=b"Jim     "))
    (tmp_path / "in" / "1").write_bytes(inserts(1) + mark(GROUP) + inserts(2, 3) + renamed)
    first = publish(job)
    assert (first.read, first.outcomes["published"], first.outcomes["held"]) == (5, 1, 3)
    deleted = record(GROUP, *jack(2, code=3))
    (tmp_path / "in" / "2").write_bytes(mark(GROUP) + deleted + mark(GROUP))
    second = publish(job)
    assert (second.read, second.outcomes["published"], second.outcomes["ignored"]) == (6, 4, 2)
    assert second.notes == ("read again: 3 record(s) of hr, which an earlier run had held",)
    assert published_keys(tmp_path / "out") == ["idu=1", "idu=2", "idu=2", "idu=2", "idu=3"]
    texts = "".join(path.read_text() for path in (tmp_path / "out").rglob("part-*.xds"))
    of_two = [line for line in texts.splitlines() if ">idu=2," in line]
    kinds = [line.partition("<input><")[2].partition(" ")[0] for line in of_two]
    assert kinds == ["add", "modify", "delete"]

"""A dispatch queue whose names are not ASCII, and a job without ``charset``; through the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Ended, run_program
from tests.support.dispatch_queue_codes import COMMIT, INSERT
from tests.support.dispatch_queue_files import Queue, binary, jack
from tests.support.dispatch_queue_jobs import JOB

CYRILLIC = "УЗЕЛ".encode()
NAMES: dict[str, dict[str, Any]] = {
    "database": {"DBNODE": CYRILLIC},
    "table": {"DST_TABLE": CYRILLIC},
    "both": {"DBNODE": CYRILLIC, "DST_TABLE": CYRILLIC},
}


def publish(folder: Path, more: str = "") -> Ended:
    (folder / "job.toml").write_text(JOB.format(more=more))
    return run_program("publish", "-c", folder / "job.toml")


def keys(folder: Path) -> list[str]:
    parts = sorted((folder / "out" / "runs").rglob("part-*.xds"))
    return re.findall(r"<association>(\w+=\d+)", "".join(part.read_text() for part in parts))


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_names_without_charset_are_rejected_and_read_again_with_it(
    tmp_path: Path, names: dict[str, Any]
) -> None:
    queue = Queue()
    rows = [queue.row(INSERT, jack(1), **names), queue.row(COMMIT, **names)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.dat").write_bytes(binary(rows))
    first = publish(tmp_path)
    assert "broken-record" in first.text
    assert "set charset" in run_program("rejects", "-c", tmp_path / "job.toml").text
    assert "held 2" not in re.sub(" +", " ", first.text)
    second = publish(tmp_path, 'charset = "utf-8"')
    assert second.code == 0, second.text
    assert keys(tmp_path) == ["idu=1"]


@pytest.mark.parametrize("name", ["DST_TABLE", "DST_OWNER"])
def test_a_transaction_with_such_a_name_is_never_published_in_part(
    tmp_path: Path, name: str
) -> None:
    """The COMMIT comes with the next export, and the file is read again only as a whole."""
    queue = Queue()
    (tmp_path / "in").mkdir()
    begun = [queue.row(INSERT, jack(1)), queue.row(INSERT, jack(2), **{name: CYRILLIC})]
    (tmp_path / "in" / "1.dat").write_bytes(binary(begun))
    assert "broken-record" in publish(tmp_path).text
    rest = [
        queue.row(COMMIT),
        queue.row(INSERT, jack(3), TRANSACT_ID=2),
        queue.row(COMMIT, TRANSACT_ID=2),
    ]
    (tmp_path / "in" / "2.dat").write_bytes(binary(rest))
    assert "held-back" in publish(tmp_path).text
    assert keys(tmp_path) == ["idu=3"]


def test_a_refused_file_beside_a_good_one_is_published_whole_with_charset(tmp_path: Path) -> None:
    queue = Queue()
    (tmp_path / "in").mkdir()
    good = [queue.row(INSERT, jack(5), TRANSACT_ID=9), queue.row(COMMIT, TRANSACT_ID=9)]
    (tmp_path / "in" / "1.dat").write_bytes(binary(good))
    bad = [
        queue.row(code, data, DST_TABLE=CYRILLIC)
        for code, data in ((INSERT, jack(1)), (COMMIT, b""))
    ]
    (tmp_path / "in" / "2.dat").write_bytes(binary(bad))
    assert "broken-record" in publish(tmp_path).text
    assert keys(tmp_path) == ["idu=5"]
    second = publish(tmp_path, 'charset = "utf-8"')
    assert second.code == 0, second.text
    assert sorted(keys(tmp_path)) == ["idu=1", "idu=5"]

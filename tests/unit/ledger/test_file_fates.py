"""Files of a job that are remembered as published, without effect, or refused: the records of each count,
wherever they were read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.errors import FatalError
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job
from tests.support.change_table_files import record, write
from tests.support.event_log_files import Row

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[[sources]]
name = "ct"
format = "change-table"
snapshots = ["usr__ct"]
key = ["idu"]
mask_order = "msb"
header_columns = 7
time_zone = "{zone}"

[dispatch]
path = "out"
"""
BEFORE = [record(n, "B", idu=str(n), fname="a") for n in (1, 2)]
AFTER = [record(n, "U", [1], idu=str(n), fname="x") for n in (1, 2)]
FAULTY = record(3, "?", idu="3")


def publish(base: Path, zone: str = "UTC") -> RunReport:
    (base / "job.toml").write_text(JOB.format(zone=zone))
    return publish_job(load(base / "job.toml"))


def put(base: Path, name: str, rows: Sequence[Row]) -> None:
    (base / "usr__ct").mkdir(exist_ok=True)
    write(base / "usr__ct" / name, rows)


def test_a_copy_of_a_file_whose_before_images_were_used_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "1.csv", BEFORE)
    put(tmp_path, "2.csv", AFTER)
    assert publish(tmp_path).outcomes["published"] == 4
    put(tmp_path, "3.csv", BEFORE)
    with pytest.raises(FatalError, match=r"3\.csv has the same content as .*1\.csv"):
        publish(tmp_path)


@pytest.mark.parametrize("names", [("1.csv", "2.csv"), ("2.csv", "1.csv")])
def test_a_file_whose_before_images_were_used_is_published(
    names: tuple[str, str], tmp_path: Path
) -> None:
    put(tmp_path, names[0], [*BEFORE, FAULTY])
    put(tmp_path, names[1], AFTER)
    report = publish(tmp_path)
    assert (report.outcomes["published"], report.outcomes["rejected"]) == (4, 1)
    assert publish(tmp_path, zone="Europe/Berlin").state == "nothing new to read"


def test_before_images_of_rejected_updates_stay_unpublished_with_them(tmp_path: Path) -> None:
    put(tmp_path, "1.csv", BEFORE)
    put(tmp_path, "2.csv", [row | {"fname": "x\x01"} for row in AFTER])
    for zone in ("UTC", "Europe/Berlin"):
        report = publish(tmp_path, zone)
        assert report.read == 4
        assert report.reasons == {"rejected": {"forbidden-character": 4}}
    assert publish(tmp_path, "Europe/Berlin").state == "nothing new to read"

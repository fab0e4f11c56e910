"""Masked jobs are verified and repaired as other jobs are, and nothing shows their values."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_engine import EngineSwitch
from tests.support.planted_tables import MASKING, ComparingJob, PlantedTables
from tests.support.planted_values import PlantedValues

KEY = "pvmaskingkey" * 3
"""Has the form of a planted text, so the search finds it, too."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, local_engine: EngineSwitch) -> None:
    del local_engine
    monkeypatch.setenv("MASK_KEY", KEY)


def planted_values() -> PlantedValues:
    planted = PlantedValues()
    planted.tokens.add(b"pvmaskingkey")
    return planted


def jobs_over(folder: Path, place: str, masking: str) -> list[ComparingJob]:
    return [
        ComparingJob(folder / name, place, "", settings)
        for name, settings in {"masked": masking, "open": ""}.items()
    ]


Reports = list[list[dict[str, Any]]]


def tables_of(report: str) -> list[dict[str, Any]]:
    """The counts of a report by table."""
    content, _ = json.JSONDecoder().raw_decode(report[report.index("{") :])
    tables: list[dict[str, Any]] = content["outcome"]["tables"]
    names = ("table", "equal", "counts", "attributes", "unwritable", "unreadable_rows")
    return [{name: table[name] for name in names} for table in tables]


def tamper(job: ComparingJob, seed: int) -> None:
    """Leaves out, repeats and alters some documents."""
    chance = random.Random(seed)
    for path in sorted(job.folder.glob("out/runs/*/part-*.xds")):
        lines = []
        for line in path.read_text("utf-8").splitlines(keepends=True):
            match chance.randrange(8):
                case 0:
                    continue
                case 1:
                    lines += [line, line]
                case 2:
                    lines.append(re.sub(r'("fname">.*?<value[^>]*>)', r"\1x", line))
                case _:
                    lines.append(line)
        path.write_text("".join(lines), "utf-8")


def correct(tables: PlantedTables) -> None:
    """Removes characters that XML forbids."""
    for row in tables.rows:
        row["fname"] = row["fname"] and row["fname"].replace("\x01", "")


def publish(jobs: list[ComparingJob], tables: PlantedTables, data: Path, kind: str) -> None:
    """Publishes the tables twice, before and after changes; verifies in between."""
    for again in range(2):
        if again:
            tables.change()
            correct(tables)
        tables.write_files(data) if kind == "files" else tables.write_database(data)
        for job in jobs:
            shown = job.run(tables.planted, "verify")
            assert ("unsettled" if again else "publish first") in shown
            job.run(tables.planted, "publish")


HASHED = '[masking]\nhash = ["*"]\nkey_env = "MASK_KEY"\n'


@pytest.mark.parametrize(
    ("kind", "masking"), [("files", HASHED), ("database", HASHED), ("files", MASKING)]
)
def test_tampered_documents_are_found_and_repaired(tmp_path: Path, kind: str, masking: str) -> None:
    tables, data = PlantedTables(planted_values(), 200), tmp_path / "data"
    place = f'url = "sqlite:///{data / "hr.db"}"\ntables = ["usr"]\n'
    if kind == "files":
        place = f'snapshots = ["{data}"]\n'
    jobs, reports = jobs_over(tmp_path, place, masking), []
    publish(jobs, tables, data, kind)
    for job in jobs:
        shown = [job.run(tables.planted, "verify", "--json")]
        tamper(job, 5)
        shown += [job.run(tables.planted, "verify", "--json")]
        reports.append([tables_of(each) for each in shown])
        for options in (["--to", job.folder / "out" / "page.html"], ["--repair", "--dry-run"]):
            assert "(none) instead of" in job.run(tables.planted, "verify", *options)
        assert " 0 rejected" in job.run(tables.planted, "verify", "--repair")
        job.read_reports(tables.planted)
        assert "error:" not in job.run(tables.planted, "verify")
        tamper(job, 6)
        assert " 0 rejected" in job.run(tables.planted, "verify", "--repair")
        assert "error:" not in job.run(tables.planted, "verify")
    masked, unmasked = jobs
    assert masked.found == set()
    assert len(unmasked.found) > 500
    check_equal(*reports, is_exact=masking == HASHED)


def check_equal(masked: Reports, unmasked: Reports, *, is_exact: bool) -> None:
    """Masking changes no result, unless it hides differences."""
    assert masked[0] == unmasked[0]
    ((after,), (right,)) = (reports[1] for reports in (masked, unmasked))
    assert len(right["counts"]) == 3 <= min(right["counts"].values())
    if is_exact:
        assert after == right
        return
    assert after["counts"]["missing"] == right["counts"]["missing"]
    assert after["counts"]["surplus"] == right["counts"]["surplus"]
    for name, count in after["attributes"].items():
        hidden = right["attributes"][name] - count
        assert hidden == 0 or (name in ("lname", "born") and hidden > 0)
    assert sum(after["attributes"].values()) < sum(right["attributes"].values())


@pytest.mark.parametrize("masking", [MASKING, ""])
def test_rejected_differences_remain(tmp_path: Path, masking: str) -> None:
    tables = PlantedTables(planted_values(), 40)
    job = ComparingJob(tmp_path, f'snapshots = ["{tmp_path / "data"}"]\n', "", masking)
    tables.write_files(tmp_path / "data")
    job.run(tables.planted, "publish")
    tables.change()
    tables.write_files(tmp_path / "data")
    job.run(tables.planted, "publish")
    for path in tmp_path.glob("out/runs/*/part-*.xds"):
        path.write_text("")
    for _ in range(2):
        shown = job.run(tables.planted, "verify", "--repair")
        assert "4 rejected" in shown
        assert "error: 4 differences were rejected" in shown
    correct(tables)
    tables.write_files(tmp_path / "data")
    job.run(tables.planted, "publish")
    assert " 0 rejected" in job.run(tables.planted, "verify", "--repair")
    shown = job.run(tables.planted, "verify")
    assert "error: rows of the tables cannot be read" in shown
    assert ("masking hides the details" in shown) is bool(masking)
    assert bool(job.found) is not bool(masking)

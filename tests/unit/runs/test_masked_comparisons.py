"""Masked jobs that compare tables publish the changes of other jobs, and write none of the values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from publisher.journal.conservation import RunReport
from publisher.masking.masker import Masker
from publisher.masking.options import MaskingOptions
from publisher.runs import execute
from tests.support.local_engine import EngineSwitch
from tests.support.planted_tables import KEY_CHANGES, MASKING, ComparingJob, PlantedTables
from tests.support.planted_values import PlantedValues

KEY = "pvmaskingkey" * 3
"""Has the form of a planted text, so the search finds it, too."""
COUNTS = r"[0-9,]+ read = .*"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, local_engine: EngineSwitch) -> None:
    del local_engine
    monkeypatch.setenv("MASK_KEY", KEY)


def jobs_over(folder: Path, place: str, settings: str) -> list[ComparingJob]:
    return [
        ComparingJob(folder / name, place, settings, masking)
        for name, masking in {"masked": MASKING, "open": ""}.items()
    ]


def check_equal(masked: ComparingJob, unmasked: ComparingJob) -> None:
    """Masking changes neither counts nor documents, but for their values."""
    counts = [re.findall(COUNTS, "".join(job.shown)) for job in (masked, unmasked)]
    assert counts[0] == counts[1] != []
    assert masked.structure() == unmasked.structure() != []
    masker = Masker(MaskingOptions(), KEY.encode())
    assert masked.object_keys() == [masker.hash(key) for key in unmasked.object_keys()]


@pytest.mark.parametrize(
    ("kind", "settings", "size"),
    [
        ("files", KEY_CHANGES, 1_500),
        ("files", 'state = "columns"\n', 40),
        ("files", 'state = "row"\n', 40),
        ("database", KEY_CHANGES, 40),
        ("database", 'state = "columns"\n', 40),
    ],
)
def test_comparisons(tmp_path: Path, kind: str, settings: str, size: int) -> None:
    planted = PlantedValues()
    planted.tokens.add(b"pvmaskingkey")
    tables, data = PlantedTables(planted, size), tmp_path / "data"
    place = f'url = "sqlite:///{data / "hr.db"}"\ntables = ["usr"]\n'
    if kind == "files":
        place = f'snapshots = ["{data}"]\n'
    jobs, given = jobs_over(tmp_path, place, settings), set[bytes]()
    for again in range(3):
        if again == 1:
            tables.change()
        tables.write_files(data) if kind == "files" else tables.write_database(data)
        given |= planted.find_below(data)
        for job in jobs:
            job.run(planted, "publish")
    key, name = tables.rows[1]["idu"], tables.rows[2]["fname"]
    for job in jobs:
        for words in (("--key", f"idu={key}"), ("--where", f"fname={name}")):
            assert "1 published" in job.run(planted, "migrate", *words)
        job.read_reports(planted)
    masked, unmasked = jobs
    assert any("unpublished" in path.read_text() for path in masked.folder.rglob("state.json"))
    assert masked.found == set()
    assert unmasked.found >= given
    assert len(given) > (10_000 if size > 1_000 else 5 * size)
    check_equal(masked, unmasked)


def test_a_state_is_opened_with_its_key_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = PlantedValues()
    tables = PlantedTables(planted, 10)
    tables.write_files(tmp_path / "data")
    job, _ = jobs_over(tmp_path, f'snapshots = ["{tmp_path / "data"}"]\n', "")
    job.run(planted, "publish")
    before = job.documents()
    tables.change()
    tables.write_files(tmp_path / "data")
    monkeypatch.setenv("MASK_KEY", "another key " * 3)
    assert "sealed data cannot be opened" in job.run(planted, "publish")
    text = (job.folder / "job.toml").read_text()
    (job.folder / "job.toml").write_text(text.replace(MASKING, ""))
    assert "is sealed with a masking key" in job.run(planted, "publish")
    assert job.documents() == before


def test_an_interrupted_migration_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = PlantedValues()
    tables = PlantedTables(planted, 10)
    tables.write_database(tmp_path / "data")
    place = f'url = "sqlite:///{tmp_path / "data" / "hr.db"}"\ntables = ["usr"]\n'
    job, _ = jobs_over(tmp_path, place, "")
    job.run(planted, "publish")
    condition = f"idu={tables.rows[1]['idu']}"

    def kill(*_: object) -> RunReport:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(execute, "send", kill)
        job.run(planted, "migrate", "--key", condition)
    again = job.run(planted, "migrate", "--key", condition)
    assert "an earlier start had planned this migration" in again
    assert job.found == set()

"""Records that a masked run holds are sealed, and a later run publishes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from publisher.masking.masker import Masker
from publisher.masking.options import MaskingOptions
from tests.support.local_engine import EngineSwitch
from tests.support.planted_held import SOURCES, all_documents, publish
from tests.support.planted_values import PlantedValues
from tests.support.retried_rejects import invoke

KEY = "pvmaskingkey" * 3
"""Has the form of a planted text, so the search finds it, too."""
MASKING = '[masking]\nhash = ["*"]\nkey_env = "MASK_KEY"\n'
COUNTS = r"[0-9]+ read = .*"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, local_engine: EngineSwitch) -> None:
    del local_engine
    monkeypatch.setenv("MASK_KEY", KEY)


@pytest.mark.parametrize("format_", SOURCES)
def test_held_records_are_sealed_and_published_later(tmp_path: Path, format_: str) -> None:
    planted = PlantedValues()
    write_files, source = SOURCES[format_]
    (tmp_path / "files").mkdir()
    paths = write_files(planted, tmp_path / "files")
    planted.tokens.add(b"pvmaskingkey")
    shown, found = {}, {}
    exits: dict[str, list[int]] = {"masked": [], "open": []}
    for name, masking in {"masked": MASKING, "open": ""}.items():
        shown[name], found[name] = publish(tmp_path / name, paths, source, masking, planted)
        for journal in sorted((tmp_path / name / ".xds-publisher").glob("*/*-0*")):
            result = invoke(tmp_path / name, "diff", journal, "--engine", "local")
            found[name] |= planted.find_in(result.output)
            exits[name].append(result.exit_code)  # 2 if the state before the run is deleted
    assert exits["masked"] == exits["open"]
    assert {*exits["masked"]} in ({0}, {0, 2})
    assert "held" in shown["open"]
    assert re.findall(COUNTS, shown["masked"]) == re.findall(COUNTS, shown["open"]) != []
    assert found["masked"] == set()
    assert len(found["open"]) > 0.7 * len(planted.tokens)
    masker = Masker(MaskingOptions(), KEY.encode())
    keys = {
        name: re.findall(r"<association>idu=(\w+)", "".join(all_documents(tmp_path / name)))
        for name in shown
    }
    assert keys["masked"] == [masker.hash(key) for key in keys["open"]]
    assert len(keys["open"]) > 3


@pytest.mark.parametrize("format_", SOURCES)
def test_held_records_are_opened_with_their_key_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    planted = PlantedValues()
    write_files, source = SOURCES[format_]
    first, *others = write_files(planted, tmp_path)
    publish(tmp_path / "job", [first], source, MASKING, planted)
    before = all_documents(tmp_path / "job")
    for path in others:
        (tmp_path / "job" / "in" / path.name).write_bytes(path.read_bytes())
    monkeypatch.setenv("MASK_KEY", "another key " * 3)
    result = invoke(tmp_path / "job", "publish", "--engine", "local")
    assert result.exit_code == 1
    assert "sealed data cannot be opened" in result.stderr
    job = tmp_path / "job" / "job.toml"
    job.write_text(job.read_text().replace(MASKING, ""))
    result = invoke(tmp_path / "job", "publish", "--engine", "local")
    assert result.exit_code == 1
    assert "is sealed with a masking key: use a job with [masking]" in result.stderr
    assert all_documents(tmp_path / "job") == before

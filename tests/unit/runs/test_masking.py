"""Masked runs write none of the values that the job file masks, and have the structure of other runs."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.masking.masker import Masker
from publisher.masking.options import MaskingOptions
from tests.support.planted_files import SETTINGS, write_planted
from tests.support.planted_logs import JOB, MASKING, PlantedLog
from tests.support.planted_values import PlantedValues

KEY = "pvmaskingkey" * 3
"""Has the form of a planted text, so the search finds it, too."""
NOW = ("--now", "2030-01-01")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASK_KEY", KEY)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def structure(folder: Path) -> list[dict[str, object]]:
    """What masking must not change about the records of a run."""
    names = ("source", "split", "row", "high", "low", "ordinal", "rank", "table", "event_type")
    tables = [
        pq.read_table(path, columns=[*names, "columns", "outcome", "reason"])
        for path in folder.rglob("lane-*.decisions.parquet")
    ]
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted(rows, key=lambda row: [str(row[name]) for name in (*names, "outcome", "reason")])


def keys_in_documents(folder: Path) -> list[str]:
    """The associations in all documents, of objects and of references to them."""
    texts = [path.read_text("utf-8") for path in sorted(folder.glob("part-*.xds"))]
    return re.findall(r'(?:<association>|ref=")(idu=[^<"]*)', "".join(texts))


def hash_of(text: str) -> str:
    return Masker(MaskingOptions(), KEY.encode()).hash(text)


def test_a_replay_with_everything(tmp_path: Path) -> None:
    planted = PlantedValues()
    inputs = tmp_path / "in"
    inputs.mkdir()
    log = PlantedLog(planted, inputs, 200)
    snapshot, job = log.write(), tmp_path / "job.toml"
    outputs = {}
    for name, settings in {"masked": MASKING, "open": ""}.items():
        job.write_text(f'[database]\nurl = "{log.database}"\n{JOB}{settings}')
        out = tmp_path / name
        outputs[name] = run("replay", snapshot, "-c", job, "--to", out, *NOW).output
        for command in (["explain", out, "1"], ["rejects", out], ["rejects", out, "--json"]):
            outputs[name] += run(*command).output
        page = tmp_path / name / "page.html"
        outputs[name] += run("report", out, "--to", page).output
        assert page.exists()
    planted.tokens.add(b"pvmaskingkey")
    found = {name: planted.find_below(tmp_path / name) for name in outputs}
    shown = {name: planted.find_in(text) for name, text in outputs.items()}
    assert found["masked"] | shown["masked"] == set()
    assert found["open"] >= planted.find_below(inputs)
    assert len(found["open"]) > 1_000
    assert structure(tmp_path / "masked") == structure(tmp_path / "open")
    assert keys_in_documents(tmp_path / "masked") == [
        re.sub("77[0-9]{7}", lambda number: hash_of(number[0]), text)
        for text in keys_in_documents(tmp_path / "open")
    ]


@pytest.mark.parametrize("format_", SETTINGS)
def test_replays_of_other_formats(tmp_path: Path, format_: str) -> None:
    planted, job = PlantedValues(), tmp_path / "job.toml"
    path = write_planted(planted, format_, tmp_path, 40)
    masking = '[masking]\nhash = ["*"]\nkey_env = "MASK_KEY"\n'
    found = {}
    for name, settings in {"masked": masking, "open": ""}.items():
        job.write_text(f"[source]\n{SETTINGS[format_]}{settings}")
        result = run("replay", path, "-c", job, "--to", tmp_path / name)
        assert result.exit_code == 0, result.output
        text = result.output + run("rejects", tmp_path / name).output
        found[name] = planted.find_below(tmp_path / name) | planted.find_in(text)
    assert found["masked"] == set()
    assert len(found["open"]) > 0.8 * len(planted.tokens)
    assert structure(tmp_path / "masked") == structure(tmp_path / "open")

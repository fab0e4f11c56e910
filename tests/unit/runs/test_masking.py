"""Masked replays write none of the values that the job file masks, and have the structure of others."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.errors import FatalError
from publisher.ledger.read import scan_runs
from publisher.masking.masker import Masker
from publisher.masking.options import MaskingOptions
from tests.support import planted_tables
from tests.support.event_log_files import csv_text, event
from tests.support.planted_files import SETTINGS, write_planted
from tests.support.planted_logs import JOB, MASKING, PlantedLog
from tests.support.planted_tables import PlantedTables
from tests.support.planted_values import PlantedValues

KEY = "pvmaskingkey" * 3
"""Has the form of a planted text, so the search finds it, too."""
RUNS = 'runs = "masked replays"\n'
HASH_ALL = f'[masking]\nhash = ["*"]\nkey_env = "MASK_KEY"\n{RUNS}'
MASKED = {"masked": ["--masked"], "open": []}
"""The options of the two replays of a test."""
NOW = ("--now", "2030-01-01")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASK_KEY", KEY)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def structure(folder: Path) -> list[dict[str, object]]:
    """What masking must not change about the records of a run."""
    names = ("source", "split", "row", "high", "low", "ordinal", "rank", "table", "event_type")
    parts = scan_runs(folder)
    tables = [part.records([*names, "columns", "outcome", "reason"]) for part in parts]
    rows = [row for table in tables for row in table.to_pylist()]
    assert rows
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
    log = PlantedLog(planted, inputs, 1_500)
    snapshot, job = log.write(), tmp_path / "job.toml"
    job.write_text(f'[database]\nurl = "{log.database}"\n{JOB}{MASKING}{RUNS}')
    outputs = {}
    for name, options in MASKED.items():
        out = tmp_path / name
        outputs[name] = run("replay", snapshot, "-c", job, "--to", out, *NOW, *options).output
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
    assert len(found["open"]) > 9_900
    structures = (structure(tmp_path / name) for name in MASKED)
    differing = [pair for pair in zip(*structures, strict=True) if pair[0] != pair[1]]
    # a value that no document can have is published as its mask
    assert {row["reason"] for _, row in differing} == {
        "forbidden-character",
        "value",
        "double-record",
    }
    expected = Counter(
        re.sub("77[0-9]{7}", lambda number: hash_of(number[0]), text)
        for text in keys_in_documents(tmp_path / "open")
    )
    assert expected <= Counter(keys_in_documents(tmp_path / "masked"))


@pytest.mark.parametrize("format_", SETTINGS)
def test_replays_of_other_formats(tmp_path: Path, format_: str) -> None:
    planted = PlantedValues()
    path = write_planted(planted, format_, tmp_path, 40)
    job = write_job(tmp_path, f"[source]\n{SETTINGS[format_]}{HASH_ALL}")
    found = {}
    for name, options in MASKED.items():
        result = run("replay", path, "-c", job, "--to", tmp_path / name, *options)
        assert result.exit_code == 0, result.output
        text = result.output + run("rejects", tmp_path / name).output
        found[name] = planted.find_below(tmp_path / name) | planted.find_in(text)
    assert found["masked"] == set()
    assert len(found["open"]) > 0.8 * len(planted.tokens)
    assert structure(tmp_path / "masked") == structure(tmp_path / "open")


def test_a_replay_of_compared_tables(tmp_path: Path) -> None:
    planted = PlantedValues()
    tables, before, now = PlantedTables(planted, 200), tmp_path / "before", tmp_path / "now"
    tables.write_files(before)
    tables.change()
    tables.write_files(now)
    job = write_job(tmp_path, planted_tables.JOB.format(before=before) + planted_tables.MASKING)
    job.write_text(job.read_text() + RUNS)
    found = {}
    for name, options in MASKED.items():
        result = run("replay", now, "-c", job, "--to", tmp_path / name, *options)
        assert result.exit_code == 0, result.output
        text = result.output + run("rejects", tmp_path / name).output
        found[name] = planted.find_below(tmp_path / name) | planted.find_in(text)
    assert found["masked"] == set()
    assert len(found["open"]) > 100
    assert structure(tmp_path / "masked") == structure(tmp_path / "open")


EVENT_LOG = (
    '[source]\nsnapshots = ["log.csv"]\n[dispatch]\npath = "out"\n[job]\nreject_budget = 9\n'
)


def small_log(folder: Path, **changes: object) -> Path:
    path = folder / "log.csv"
    path.write_text(csv_text([event(1, **changes)]))
    return path


def write_job(folder: Path, text: str) -> Path:
    job = folder / "job.toml"
    job.write_text(text)
    return job


@pytest.mark.parametrize(
    "words",
    [
        ["publish", "-c", "job.toml"],
        ["check", "-c", "job.toml"],
        ["verify", "-c", "job.toml"],
        ["rejects", "-c", "job.toml", "--retry", "fixed.jsonl"],
        ["replay", "log.csv", "-c", "job.toml", "--to", "other"],
        ["inspect", "log.csv", "-c", "job.toml"],
    ],
)
def test_a_job_says_that_it_publishes_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_log(tmp_path)
    (tmp_path / "fixed.jsonl").touch()
    write_job(tmp_path, EVENT_LOG + MASKING)
    result = run(*words)
    assert result.exit_code == 2
    assert "[masking] runs: is not set" in result.output
    assert 'set runs = "masked replays"' in result.output
    assert not (tmp_path / "out").exists()
    write_job(tmp_path, EVENT_LOG + MASKING + RUNS)
    assert "[masking]" not in run(*words).output


def inspect(job: Path, *words: object) -> list[dict[str, Any]]:
    result = run("inspect", *words, "-c", job)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("format_", SETTINGS)
def test_inspect_masks_records(tmp_path: Path, format_: str) -> None:
    planted = PlantedValues()
    path = write_planted(planted, format_, tmp_path, 40)
    job = write_job(tmp_path, f"[source]\n{SETTINGS[format_]}{HASH_ALL}")
    shown = {name: inspect(job, path, *options) for name, options in MASKED.items()}
    texts = {name: json.dumps(records) for name, records in shown.items()}
    assert planted.find_in(texts["masked"]) == set()
    assert len(planted.find_in(texts["open"])) > 0.8 * len(planted.tokens)
    same = ("position", "event_type", "outcome", "reason", "table", "transaction")
    assert [[record.get(name) for name in same] for record in shown["masked"]] == [
        [record.get(name) for name in same] for record in shown["open"]
    ]


@pytest.mark.parametrize(
    ("kind", "texts", "canonical"),
    [
        ("decimal", ["1.50", "1.5", "+1.500", " 15e-1", "1.5 "], "1.5"),
        ("decimal", ["a<b"], "a<b"),
        ("int", ["007", "7", "+7"], "7"),
        ("string", ["1.50"], "1.50"),
    ],
)
def test_equal_values_have_one_mask(
    tmp_path: Path, kind: str, texts: list[str], canonical: str
) -> None:
    log = tmp_path / "log.csv"
    log.write_text(csv_text([event(n, new_value=text) for n, text in enumerate(texts, 1)]))
    table = f'[tables.usr]\ncolumns = {{ fname = "{kind}" }}\n'
    job = write_job(tmp_path, table + HASH_ALL)
    shown = inspect(job, log, "--masked")
    assert {record["columns"][0]["new"] for record in shown} == {hash_of(canonical)}
    run("replay", log, "-c", job, "--to", tmp_path / "out", "--masked")
    (documents,) = (tmp_path / "out").glob("part-*.xds")
    assert documents.read_text("utf-8").count(f">{hash_of(canonical)}<") == len(texts)


def test_inspect_shows_the_masks_of_documents(tmp_path: Path) -> None:
    planted, job = PlantedValues(), tmp_path / "job.toml"
    log = PlantedLog(planted, tmp_path, 150)
    snapshot = log.write()
    job.write_text(f'[database]\nurl = "{log.database}"\n{JOB}{MASKING}')
    run("replay", snapshot, "-c", job, "--to", tmp_path / "out", *NOW, "--masked")
    documents = "".join(path.read_text("utf-8") for path in (tmp_path / "out").glob("part-*.xds"))
    records = inspect(job, snapshot, "--masked")
    assert planted.find_in(json.dumps(records)) == set()
    values = {
        value
        for record in records
        if "outcome" not in record and record["event_type"] < 4
        for column in record["columns"]
        for value in (column.get("old"), column.get("new"))
        if value and re.fullmatch("[0-9a-f]{32}", value)
    }
    written = {*re.findall("[0-9a-f]{32}", documents)}
    assert len(values) > 50
    assert len(values & written) > 0.7 * len(values)
    keys = {record["key"] for record in records if "outcome" not in record}
    assert len([key for key in keys if f"<association>{key},table" in documents]) > 50


def test_a_masked_replay_has_no_records_as_they_were(tmp_path: Path) -> None:
    job, out = write_job(tmp_path, MASKING), tmp_path / "out"
    log = small_log(tmp_path, table_key="idu=pvabcdefghij+")
    assert run("replay", log, "-c", job, "--to", out, "--masked").exit_code == 0
    assert "masking hides the details" in run("rejects", out).output
    result = run("rejects", out, "--export", tmp_path / "fixed.jsonl")
    assert result.exit_code == 2
    assert "is masked, so that nothing has its records as they were" in result.output
    assert not (tmp_path / "fixed.jsonl").exists()


def test_a_failed_masked_replay_leaves_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted, inputs = PlantedValues(), tmp_path / "in"
    inputs.mkdir()
    log = PlantedLog(planted, inputs, 50)
    snapshot = log.write()
    job = write_job(tmp_path, f'[database]\nurl = "{log.database}"\n{JOB}{MASKING}')

    def fail(*_: object) -> None:
        raise FatalError("the disk is full")

    monkeypatch.setattr("publisher.runs.run.keep_rejected", fail)
    result = run("replay", snapshot, "-c", job, "--to", tmp_path / "out", "--masked")
    assert "the disk is full" in result.output
    assert any((tmp_path / "out").rglob("part-*"))
    assert planted.find_below(tmp_path / "out") == set()


def test_a_masked_replay_of_a_job_that_publishes_values(tmp_path: Path) -> None:
    planted = PlantedValues()
    log = small_log(tmp_path, new_value=planted.text())
    text = EVENT_LOG + MASKING + 'runs = "masked replays"\n'
    job = write_job(tmp_path, text)
    for name, options in {"open": [], "masked": ["--masked"]}.items():
        result = run("replay", log, "-c", job, "--to", tmp_path / name, *options)
        assert result.exit_code == 0, result.output
    assert planted.find_below(tmp_path / "open") == planted.tokens
    assert planted.find_below(tmp_path / "masked") == set()
    result = run("diff", tmp_path / "masked", tmp_path / "masked")
    assert result.exit_code == 0, result.output
    write_job(tmp_path, EVENT_LOG)
    result = run("replay", log, "-c", job, "--to", tmp_path / "other", "--masked")
    assert "add [masking] with the columns and the key" in result.output


def test_a_column_of_a_key_can_only_be_hashed(tmp_path: Path) -> None:
    job = write_job(tmp_path, MASKING.replace('"*.born"', '"idu"').replace('"*.idu", ', ""))
    text = job.read_text().replace('"usr.*"', '"fname"').replace('"member.*", "idg", ', "")
    job.write_text(text)
    result = run("replay", small_log(tmp_path), "-c", job, "--to", tmp_path / "out", "--masked")
    assert result.exit_code == 1
    assert "column idu is in the key of usr" in result.output
    assert "name it in hash" in result.output


@pytest.mark.parametrize("key", [None, "short"])
def test_a_missing_key_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.delenv("MASK_KEY")
    if key:
        monkeypatch.setenv("MASK_KEY", key)
    job = write_job(tmp_path, MASKING)
    result = run("replay", small_log(tmp_path), "-c", job, "--to", tmp_path / "out", "--masked")
    assert result.exit_code == 2
    assert "the masking key in environment variable MASK_KEY has" in result.output
    assert "openssl rand -hex 32" in result.output


def test_another_key_makes_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, job, out = small_log(tmp_path), write_job(tmp_path, MASKING), tmp_path / "out"
    words = ("replay", log, "-c", job, "--to", out, "--masked")
    assert run(*words).exit_code == 0
    assert "already published" in run(*words).output
    monkeypatch.setenv("MASK_KEY", KEY + "2")
    assert run(*words).exit_code == 2


def test_an_empty_section_is_a_mistake(tmp_path: Path) -> None:
    job = write_job(tmp_path, "[masking]\n")
    result = run("replay", small_log(tmp_path), "-c", job, "--to", tmp_path / "out", "--masked")
    assert "[masking] hash: names no column" in result.output


def test_unexpected_errors_quote_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("cannot convert pvabcdefghij")

    monkeypatch.setattr("publisher.runs.run.prepare_work", fail)
    log, job = small_log(tmp_path), write_job(tmp_path, MASKING)
    result = run("--debug", "replay", log, "-c", job, "--to", tmp_path / "out", "--masked")
    assert result.exit_code == 1
    assert "ValueError: masking hides its message" in result.output
    assert "in fail" in result.output
    assert "cannot convert" not in result.output.replace('raise ValueError("cannot convert', "")

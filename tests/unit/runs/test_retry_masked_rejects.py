"""Rejected records of masked runs are exported with the key, corrected and published masked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from publisher.masking.masker import Masker
from publisher.masking.options import MaskingOptions
from tests.support import change_table_files, linkexpress_files
from tests.support.dispatch_queue_codes import COMMIT, INSERT
from tests.support.dispatch_queue_files import Queue, binary, jack
from tests.support.event_log_files import csv_text, event
from tests.support.linkexpress_files import OPEN
from tests.support.local_engine import EngineSwitch
from tests.support.planted_logs import JOB, PlantedLog
from tests.support.planted_values import PlantedValues
from tests.support.renamed_rows import SETTINGS
from tests.support.retried_jobs import EXTRACT
from tests.support.retried_rejects import documents, export, invoke, retry

KEY = "pvmaskingkey" * 3
"""Has the form of a planted text, so the search finds it, too."""
MASKING = '[masking]\nhash = ["*"]\nkey_env = "MASK_KEY"\n'
SINK = '[dispatch]\npath = "out"\n[job]\nreject_budget = 9\n'
ROWS = """
[[sources]]
format = "change-table"
snapshots = ["in"]
source_table = "indirect.usr"
mask_order = "msb"
header_columns = 7
pair_wait = 0
key = ["idu"]
"""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, local_engine: EngineSwitch) -> None:
    del local_engine
    monkeypatch.setenv("MASK_KEY", KEY)


@dataclass
class MaskedJob:
    """A job that masks everything, and whose first run rejects a record."""

    folder: Path
    planted: PlantedValues = field(default_factory=PlantedValues)

    def publish(self, source: str, name: str, content: bytes) -> None:
        (self.folder / "in").mkdir()
        (self.folder / "in" / name).write_bytes(content)
        (self.folder / "job.toml").write_text(source + SINK + MASKING)
        invoke(self.folder, "publish", "--engine", "local")

    def check(self, *texts: str) -> None:
        """No planted value is in the texts, or in anything that the job wrote."""
        self.planted.tokens.add(b"pvmaskingkey")
        for folder in (self.folder / "out", self.folder / ".xds-publisher"):
            assert any(folder.rglob("*"))
            assert self.planted.find_below(folder) == set()
        assert self.planted.find_in(*texts) == set()


def hash_of(text: str) -> str:
    return Masker(MaskingOptions(), KEY.encode()).hash(text)


def test_records_of_an_event_log(tmp_path: Path) -> None:
    job = MaskedJob(tmp_path)
    planted = job.planted
    names = [planted.text() for _ in range(3)]
    rows = [
        event(1, table_key=planted.text(), new_value=names[0]),
        event(2, new_value=f"{names[1]} \x07"),
        event(3, new_value=names[2], event_time=planted.text()),
    ]
    job.publish('[[sources]]\nsnapshots = ["in"]\n', "log.csv", csv_text(rows).encode())
    refused = invoke(tmp_path, "rejects", "--export", tmp_path / "rejects.jsonl")
    assert refused.exit_code == 2
    assert "are masked: add --unmasked to export them as they were" in refused.stderr
    assert not (tmp_path / "rejects.jsonl").exists()
    result = invoke(tmp_path, "rejects", "--export", tmp_path / "rejects.jsonl", "--unmasked")
    assert "3 record(s); the file is not masked: delete it after the retry" in result.stdout
    assert (tmp_path / "rejects.jsonl").stat().st_mode & 0o777 == 0o600
    entries = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    raws = sorted((entry["raw"] for entry in entries), key=lambda raw: int(raw["record_id"]))
    assert [raw["new_value"] for raw in raws] == [names[0], f"{names[1]} \x07", names[2]]
    assert any(rows[0]["table_key"] in entry["detail"] for entry in entries)
    job.check(refused.output, result.output, invoke(tmp_path, "rejects").output)

    for entry in entries:
        entry["raw"] |= {"table_key": "idu=7", "event_time": "2020-01-01 00:00:00"}
        entry["raw"]["new_value"] = entry["raw"]["new_value"].removesuffix(" \x07")
    entries[0]["raw"]["event_type"] = planted.text()  # rejected again
    result = retry(tmp_path, entries)
    report = json.loads(result.stdout)
    assert (report["read"], report["outcomes"]["rejected"]) == (3, 1)
    text = "".join(documents(tmp_path, "job-000002"))
    assert [hash_of(name) in text for name in names].count(True) == 2
    (tmp_path / "rejects.jsonl").unlink()
    (again,) = [
        entry
        for entry in export(tmp_path, "event-type", "--unmasked")
        if entry["id"].startswith("job-000002")
    ]
    assert again["raw"] == entries[0]["raw"]
    job.check(result.output, invoke(tmp_path, "explain", again["position"]).output)


def test_nothing_of_a_large_log_is_shown_when_its_records_are_retried(tmp_path: Path) -> None:
    job, inputs = MaskedJob(tmp_path), tmp_path / "files"
    inputs.mkdir()
    log = PlantedLog(job.planted, inputs, 1_500)
    content = log.write().read_bytes()
    source = f'[database]\nurl = "{log.database}"\n' + JOB.replace(
        "[source]\n", '[[sources]]\nsnapshots = ["in"]\n'
    ).replace("future_events = true\n", "")
    job.publish(source, "log.csv", content)
    assert len(job.planted.tokens) > 9_900
    target = tmp_path / "rejects.jsonl"
    shown = [invoke(tmp_path, "rejects", "--export", target, "--unmasked").output]
    entries = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(job.planted.find_in(target.read_text())) > 300
    for entry in entries:
        entry["raw"] |= {"event_time": "2020-01-01 00:00:00"}
    result = retry(tmp_path, entries)
    report = json.loads(result.stdout)
    assert report["read"] == len(entries) > 250
    assert min(report["outcomes"][outcome] for outcome in ("published", "rejected")) > 10
    words = [["rejects"], ["status"], ["explain", "1"], ["rejects", "--json"]]
    job.check(*shown, result.output, *(invoke(tmp_path, *word).output for word in words))


def test_a_record_of_a_change_table(tmp_path: Path) -> None:
    job = MaskedJob(tmp_path)
    key, name, place = job.planted.number(), job.planted.text(), job.planted.text()
    record = change_table_files.record(1, "I", [0, 1], idu=key, fname=name)
    path = tmp_path / "usr__ct.csv"
    change_table_files.write(path, [record | {"header__change_seq": place}])
    job.publish(ROWS, path.name, path.read_bytes())
    (entry,) = export(tmp_path, "change-seq", "--unmasked")
    assert (entry["raw"]["fname"], entry["raw"]["header__change_seq"]) == (name, place)
    entry["raw"]["header__change_seq"] = change_table_files.seq(7)
    result = retry(tmp_path, [entry])
    assert result.exit_code == 0, result.stderr
    (text,) = documents(tmp_path, "job-000002")
    assert f"idu={hash_of(key)}" in text
    assert hash_of(name) in text
    job.check(result.output)


def test_a_record_of_an_extraction(tmp_path: Path) -> None:
    job = MaskedJob(tmp_path)
    key = job.planted.number()
    values: list[Any] = [
        int(key),
        bytes.fromhex("12345C"),
        {"length": 6, "data": b"ab".ljust(6)},
    ]
    names = linkexpress_files.WRONG_NAME, b"Jack".ljust(8)
    good = linkexpress_files.record(OPEN, *linkexpress_files.jack(1, 1))
    wrong, right = (
        linkexpress_files.record(OPEN, 0, 1, [values[0], name, *values[1:]]) for name in names
    )
    job.publish(EXTRACT, "usr.dat", good + wrong + good)
    (entry,) = export(tmp_path, "value", "--unmasked")
    assert bytes.fromhex(entry["raw"]["hex"]) == wrong
    result = retry(tmp_path, [entry | {"raw": {"hex": right.hex()}}])
    assert result.exit_code == 0, result.stderr
    (text,) = documents(tmp_path, "job-000002")
    assert f"idu={hash_of(key)}" in text
    job.check(result.output)


def test_another_key_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = MaskedJob(tmp_path)
    rows = [event(1, table_key=job.planted.text())]
    job.publish('[[sources]]\nsnapshots = ["in"]\n', "log.csv", csv_text(rows).encode())
    monkeypatch.setenv("MASK_KEY", "another key " * 3)
    result = invoke(tmp_path, "rejects", "--export", tmp_path / "rejects.jsonl", "--unmasked")
    assert result.exit_code == 1
    assert "run job-000001: sealed data cannot be opened" in result.stderr
    assert not (tmp_path / "rejects.jsonl").exists()
    job.check(result.output)


def test_unmasked_records_are_only_exported(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text('[[sources]]\nsnapshots = ["in"]\n' + SINK + MASKING)
    result = invoke(tmp_path, "rejects", "--unmasked")
    assert result.exit_code == 2
    assert "name the file with --export" in result.stderr


def test_an_operation_of_a_dispatch_queue(tmp_path: Path) -> None:
    job, queue = MaskedJob(tmp_path), Queue()
    key, name, wrong = job.planted.number(), job.planted.text(), job.planted.text()
    image = jack(int(key), "Jack", name)
    rows = [queue.row(INSERT, image[:-9]), queue.row(COMMIT)]
    source = f'[[sources]]\nsnapshots = ["in"]\n{SETTINGS["dispatch-queue"]}'
    job.publish(source, "queue.dat", binary(rows))
    result = invoke(tmp_path, "rejects", "--export", tmp_path / "rejects.jsonl", "--unmasked")
    assert "1 record(s)" in result.output
    entry = json.loads((tmp_path / "rejects.jsonl").read_text())
    assert image[:-9].hex() in json.dumps(entry["raw"])
    refused = retry(tmp_path, [entry | {"raw": entry["raw"] | {"TRANSACT_ID": wrong}}])
    assert refused.exit_code == 2
    assert "raw is no operation (masking hides its message)" in refused.stderr
    corrected = {"first": image.hex(), "second": "", "data": None}
    raw = {name: value for name, value in (entry["raw"] | corrected).items() if value is not None}
    result = retry(tmp_path, [entry | {"raw": raw}])
    assert result.exit_code == 0, result.stderr
    (text,) = documents(tmp_path, "job-000002")
    assert f"idu={hash_of(key)}" in text
    job.check(result.output, refused.output)


def test_a_row_of_a_compared_table(tmp_path: Path) -> None:
    job = MaskedJob(tmp_path)
    names = [job.planted.text() for _ in range(3)]
    content = f"idu,fname\n1,{names[0]} \x07\nx{names[1]},{names[2]}\n"
    source = (
        '[[sources]]\nname = "hr"\nformat = "triggerless"\nsnapshots = ["in"]\nstate = "values"\n'
    )
    table = '[tables.usr]\nkey = ["idu"]\ncolumns = { idu = "int", fname = "string" }\n'
    job.publish(source + table, "usr.csv", content.encode())
    (tmp_path / "rejects.jsonl").unlink(missing_ok=True)
    invoke(tmp_path, "rejects", "--export", tmp_path / "rejects.jsonl", "--unmasked")
    lines = (tmp_path / "rejects.jsonl").read_text().splitlines()
    entries = {entry["reason"]: entry for entry in map(json.loads, lines)}
    changed, row = entries["forbidden-character"], entries["table-key"]
    row["raw"] |= {"idu": "2", "other": "x"}
    refused = retry(tmp_path, [row])
    assert refused.exit_code == 2
    changed["raw"]["new"] = [names[0]]
    del row["raw"]["other"]
    result = retry(tmp_path, [changed, row])
    assert json.loads(result.stdout)["outcomes"]["published"] == 2, result.stderr
    text = "".join(documents(tmp_path, json.loads(result.stdout)["run"]))
    assert hash_of(names[0]) in text
    assert hash_of(names[2]) in text
    (tmp_path / "in" / "usr.csv").write_text(f"idu,fname\n1,{names[0]}\n2,{names[2]}\n")
    again = invoke(tmp_path, "publish", "--engine", "local", "--json")
    assert json.loads(again.stdout)["reasons"] == {"ignored": {"unchanged": 2}}
    job.check(*(shown.output for shown in (refused, result, again, invoke(tmp_path, "rejects"))))

"""Bytes of binary records, as ``explain`` and ``history`` show them."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from tests.support.linkexpress_jobs import JOB, inserts

pytestmark = pytest.mark.usefixtures("local_engine")


def program(*words: str) -> str:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_at_most_80_digits_are_shown_and_json_has_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB, "utf-8")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "people.dat").write_bytes(inserts(1))
    program("publish", "-c", "job.toml")
    (story,) = json.loads(program("explain", "-c", "job.toml", "idu=1", "--json"))
    raw = max(re.findall("[0-9a-f]+", story["raw"]), key=len)
    assert len(raw) > 80
    shown = program("explain", "-c", "job.toml", "idu=1")
    assert f"{raw[:80]}… ({len(raw) // 2:,} bytes)" in shown
    assert raw[:82] not in shown

"""Exports rejected records of a job, and retries them, by the program's own commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from publisher.cli.main import cli


def invoke(base: Path, command: str, *words: object) -> Result:
    config = str(base / "job.toml")
    return CliRunner().invoke(cli, [command, "-c", config, *map(str, words)])


def export(base: Path, reason: str, *words: str) -> list[dict[str, Any]]:
    target = base / "rejects.jsonl"
    result = invoke(base, "rejects", "--reason", reason, "--export", target, *words)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in target.read_text().splitlines()]


def export_all(base: Path) -> list[dict[str, Any]]:
    """Exports all records that were not retried."""
    target = base / "rejects.jsonl"
    target.unlink(missing_ok=True)
    result = invoke(base, "rejects", "--export", target)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in target.read_text().splitlines()]


def retry(base: Path, entries: list[dict[str, Any]]) -> Result:
    fixed = base / "fixed.jsonl"
    fixed.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return invoke(base, "rejects", "--engine", "local", "--json", "--retry", fixed)


def documents(base: Path, run: str) -> list[str]:
    """The documents of a run that publishes to ``out``, lane by lane."""
    parts = sorted((base / "out" / "runs" / run).glob("part-*.xds"))
    return [line for part in parts for line in part.read_text("utf-8").splitlines()]


def objects(base: Path, run: str) -> list[str]:
    """The keys of the objects of a run's documents."""
    return re.findall(r"<association>(\w+=\d+)", "".join(documents(base, run)))

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from publisher.errors import FatalError
from publisher.formats.files.options import SnapshotOptions
from publisher.model.change import Outcome
from tests.support.event_log_files import read

HERE = Path(__file__).parent
CASES = tomllib.loads((HERE / "cases.toml").read_text())["case"]


def name(case: dict[str, Any]) -> str:
    return " ".join([case["file"], *(f"{k}={v}" for k, v in case.get("reading", {}).items())])


def test_every_hostile_file_has_a_case() -> None:
    files = {str(path.relative_to(HERE)) for path in (HERE / "event-log").iterdir()}
    assert {case["file"] for case in CASES if case["file"].startswith("event-log/")} == files


@pytest.mark.parametrize("block_size", [64, 1 << 20])
@pytest.mark.parametrize("case", CASES, ids=name)
def test_hostile_input_gives_what_its_case_says(case: dict[str, Any], block_size: int) -> None:
    snapshot = SnapshotOptions(block_size=block_size, **case.get("reading", {}))
    path = HERE / case["file"]
    if "refused" in case:
        with pytest.raises(FatalError) as refusal:
            read(path, None, snapshot)
        assert case["refused"] in refusal.value.message
        assert str(path) in refusal.value.message
        return
    records, framed = read(path, None, snapshot, wanted=3)
    outcomes = Counter(record["outcome"] for record in records)
    reasons = Counter(str(r["reason"]) for r in records if r["outcome"] == Outcome.REJECTED)
    assert framed == len(records) == case["records"]
    assert outcomes[None] == case["changes"]
    assert outcomes[Outcome.IGNORED] == case.get("ignored", 0)
    assert dict(reasons) == case.get("rejected", {})

"""A small run of ``./run fuzz``, and that such a run finds what it looks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.sources.registry import FORMATS
from tests.fuzz import worker
from tests.fuzz.form import Form, Read
from tests.fuzz.forms import FORMS
from tests.fuzz.trial import Tally
from tests.fuzz.worker import Failure

LINES = next(form for form in FORMS if form.name == "event-log in lines")


def run(
    form: Form, keep: Path, records: int = 100, seed: str = "test"
) -> tuple[Tally, list[Failure]]:
    failures: list[Failure] = []

    def say(kind: str, value: object) -> None:
        if isinstance(value, Failure):
            failures.append(value)

    return worker.work(form.name, seed, records, None, keep, say), failures


def test_every_format_is_damaged() -> None:
    assert {form.format for form in FORMS} == {*FORMATS, "table-queue"}
    assert len({form.name for form in FORMS}) == len(FORMS)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_damage_is_said_and_nothing_else_is_lost(form: Form, tmp_path: Path) -> None:
    tally, failures = run(form, tmp_path)
    assert not failures
    assert tally.records >= 100
    assert tally.claimed > 0


def lossy(read: Read) -> Read:
    return Read(read.rows[:-1], read.framed)


def change_perpetrator(read: Read) -> Read:
    return Read([row | {"perpetrator": "nobody"} for row in read.rows], read.framed)


def raising(read: Read) -> Read:
    raise KeyError("usr")


BROKEN: dict[str, Callable[[Read], Read]] = {
    "have an outcome": lossy,
    "said": change_perpetrator,
    "KeyError": raising,
}


@pytest.mark.parametrize("why", BROKEN)
def test_a_reader_that_breaks_a_promise_is_found(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def read(path: Path, wanted: int) -> Read:
        nonlocal calls
        calls += 1
        found = LINES.read(path, wanted)
        # the first is the valid file
        return BROKEN[why](found) if calls > 1 and len(found.rows) > 3 else found

    monkeypatch.setattr(worker, "FORMS", [replace(LINES, read=read)])
    monkeypatch.setattr(worker, "MOST_FAILURES", 1)
    monkeypatch.setattr(worker, "PATIENCE", 1.0)
    _, (failure,) = run(LINES, tmp_path)
    assert why in failure.why
    said = json.loads((Path(failure.kept) / "failure.json").read_text())
    assert said["trial"] == failure.trial
    assert (Path(failure.kept) / "usr.csv").stat().st_size > 0

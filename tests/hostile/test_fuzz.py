"""A small run of ``./run fuzz``, and that such a run finds what it looks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.formats.registry import FORMATS
from tests.fuzz import worker
from tests.fuzz.damage import Part, damage
from tests.fuzz.form import Form, Framing, Read, Reader
from tests.fuzz.forms import FORMS
from tests.fuzz.trial import Tally
from tests.fuzz.worker import Failure

LINES = next(form for form in FORMS if form.name == "event-log csv")


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


def find_failure(read: Reader, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Failure:
    """The first failure of a form with another reader."""
    monkeypatch.setattr(worker, "FORMS", [replace(LINES, read=read)])
    monkeypatch.setattr(worker, "MOST_FAILURES", 1)
    monkeypatch.setattr(worker, "PATIENCE", 1.0)
    _, (failure,) = run(LINES, folder)
    return failure


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

    failure = find_failure(read, tmp_path, monkeypatch)
    assert why in failure.why
    saved = json.loads((Path(failure.kept) / "failure.json").read_text())
    assert saved["trial"] == failure.trial
    assert (Path(failure.kept) / "usr.csv").stat().st_size > 0


def test_a_reader_that_counts_wrongly_in_another_cut_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path, wanted: int) -> Read:
        found = LINES.read(path, wanted)
        return Read(found.rows, found.framed + (wanted > 1))

    assert "have an outcome" in find_failure(read, tmp_path, monkeypatch).why


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form.framing is not Framing.ROWS], ids=lambda form: form.name
)
def test_other_delimiters_and_quotes_damage_csv_only(form: Form) -> None:
    row = b'"1","Ann ""A"" Lee"\n'
    found = {damage(step, [Part(row, 0)], form) for step in range(200)}
    assert ({"delimit", "quote"} <= found) == (".csv" in form.file)

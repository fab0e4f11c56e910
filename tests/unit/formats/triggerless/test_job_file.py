"""The example conf/triggerless.toml shows the defaults; wrong settings are refused with advice."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.errors import SettingsError
from publisher.formats.registry import FORMATS
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.source import Triggerless
from tests.support.settings_reference import load_source


def problems_of(base: Path, text: str) -> list[str]:
    """The problems of a job file with this source."""
    (base / "job.toml").write_text(f'[[sources]]\nformat = "triggerless"\n{text}\n')
    try:
        load(base / "job.toml").for_publish()
    except SettingsError as error:
        return error.lines
    return []


def test_the_example_shows_the_defaults() -> None:
    assert load_source("triggerless").options == TriggerlessOptions()


def test_options_are_restored_from_a_ledger() -> None:
    options = TriggerlessOptions(
        tables=("usr",), key={"usr": ("idu", "x")}, before=("b",), state="values"
    )
    plain = asdict(options) | {"tables": ["usr"], "key": {"usr": ["idu", "x"]}, "before": ["b"]}
    again = FORMATS["triggerless"].restore(plain, {})
    assert isinstance(again, Triggerless)
    assert again.options == options


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('[[sources]]\nformat = "triggerless"\nsnapshots = ["x"]\nbefore = ["old"]\n')
    (source,) = load(path).sources
    assert source.comparison is not None
    assert source.comparison.earlier_files == (str(tmp_path / "old"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'nothing to read; set snapshots = ["FILE"] or tables = ["NAME"]'),
        ('tables = ["usr"]', "no database is named"),
        ('table = "usr"', 'this format compares tables; write tables = ["NAME"]'),
        (
            'snapshots = ["x"]\nstate = "values"\nkey_change = "modify-association"',
            "key_change_by: name the columns that identify an object whatever its key is",
        ),
        (
            (
                'snapshots = ["x"]\nstate = "values"\nkey_change = "modify-association"\n'
                "key_change_by = { usr = [] }"
            ),
            "key_change_by: name the columns that identify an object whatever its key is",
        ),
        (
            'snapshots = ["x"]\nkey_change = "modify-association"\nkey_change_by = { usr = ["g"] }',
            'key_change: old and new rows are joined by their values; set state = "values"',
        ),
        (
            'snapshots = ["x"]\nstate = "values"\nkey_change_by = { usr = ["g"] }',
            'key_change_by: has no effect; set key_change = "modify-association"',
        ),
        (
            (
                'snapshots = ["x"]\nstate = "values"\nkey_change = "modify-association"\n'
                'tables = ["s.usr", "t"]\nkey_change_by = { "x.usr" = ["g"] }'
            ),
            "key_change_by: x.usr is not in tables; add it, or fix the name",
        ),
        ('snapshots = ["x"]\nbuckets = 48', "write a power of two"),
        ('snapshots = ["x"]\nstate = "crc"', "state"),
        ('snapshots = ["x"]\nstartup_option = "none"', "startup_option"),
    ],
)
def test_wrong_settings_are_refused_with_advice(tmp_path: Path, text: str, words: str) -> None:
    problems = problems_of(tmp_path, f'{text}\n[dispatch]\npath = "out"')
    assert any(words in problem for problem in problems), problems

"""conf/triggerless.toml shows every setting of tables that are compared, and its default."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from publisher.errors import SettingsError
from publisher.job_file import load, source_parts
from publisher.sections import option_defaults
from publisher.sources.registry import restored
from publisher.sources.triggerless.options import Options
from publisher.sources.triggerless.source import Triggerless

SHOWN = Path(__file__).parents[2] / "conf" / "triggerless.toml"
SHARED = "# The database with the tables themselves"
_COMMENTED = re.compile(r"# (?=\[|[\w.\"]+ = )")


def activated() -> dict[str, Any]:
    lines = [_COMMENTED.sub("", line, count=1) for line in SHOWN.read_text("utf-8").splitlines()]
    (source,) = tomllib.loads("\n".join(lines))["sources"]
    return dict(source)


def loaded(base: Path, text: str) -> list[str]:
    """The problems of a job file with this source."""
    (base / "job.toml").write_text(f'[[sources]]\nformat = "triggerless"\n{text}\n')
    try:
        load(base / "job.toml").for_publish()
    except SettingsError as error:
        return error.problems
    return []


def test_it_loads_as_it_stands() -> None:
    (source,) = load(SHOWN).for_publish().sources
    assert source.options == Options()
    assert source.polls is None


def test_every_setting_is_shown_with_its_default() -> None:
    parts = source_parts("triggerless")
    shown = activated()
    assert set(shown) == {field.name for part in parts for field in fields(part)}
    defaults = {name: value for part in parts for name, value in option_defaults(part).items()}
    text = SHOWN.read_text("utf-8")
    for name, value in shown.items():
        if defaults[name] in (None, (), {}):
            assert re.search(rf"# {name} = .*# no default|^{name} = ", text, re.MULTILINE), name
        elif name != "format":
            assert value == defaults[name], name


def test_what_is_no_setting_of_a_source_is_that_of_event_logs() -> None:
    both = [
        SHOWN.with_name(f"{name}.toml").read_text("utf-8") for name in ("triggerless", "event-log")
    ]
    one, other = (text.partition(SHARED)[2] for text in both)
    assert one == other


def test_options_come_back_from_a_journal() -> None:
    options = Options(tables=("usr",), key={"usr": ("idu", "x")}, before=("b",), state="values")
    plain = asdict(options) | {"tables": ["usr"], "key": {"usr": ["idu", "x"]}, "before": ["b"]}
    again = restored("triggerless", plain, {})
    assert isinstance(again, Triggerless)
    assert again.options == options


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('[[sources]]\nformat = "triggerless"\nsnapshots = ["x"]\nbefore = ["old"]\n')
    (source,) = load(path).sources
    assert source.compared is not None
    assert source.compared.before == (str(tmp_path / "old"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'nothing to read; set snapshots = ["FILE"] or tables = ["NAME"]'),
        ('tables = ["usr"]', "of which database?"),
        ('table = "usr"', 'several may be compared; write tables = ["NAME"]'),
        ('snapshots = ["x"]\nbuckets = 48', "write a power of two"),
        ('snapshots = ["x"]\nhints = "samples"', "samples: hints need them"),
        ('snapshots = ["x"]\nstate = "crc"', "state"),
        ('snapshots = ["x"]\nstartup_option = "none"', "startup_option"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, words: str) -> None:
    problems = loaded(tmp_path, f'{text}\n[dispatch]\npath = "out"')
    assert any(words in problem for problem in problems), problems

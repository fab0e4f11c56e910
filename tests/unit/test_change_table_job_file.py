"""conf/change-table.toml shows every setting of a change table, and its default."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from publisher.job_file import load, source_parts
from publisher.sections import option_defaults
from publisher.sources.change_table.options import Options
from publisher.sources.registry import restored

SHOWN = Path(__file__).parents[2] / "conf" / "change-table.toml"
SHARED = "# The database with the tables themselves"
_COMMENTED = re.compile(r"# (?=\[|[\w.\"]+ = )")


def activated() -> dict[str, Any]:
    lines = [_COMMENTED.sub("", line, count=1) for line in SHOWN.read_text("utf-8").splitlines()]
    (source,) = tomllib.loads("\n".join(lines))["sources"]
    return dict(source)


def test_it_loads_as_it_stands() -> None:
    (source,) = load(SHOWN).for_publish().sources
    assert source.options == Options()
    assert source.polls is None


def test_every_setting_is_shown_with_its_default() -> None:
    parts = source_parts("change-table")
    shown = activated()
    assert set(shown) == {field.name for part in parts for field in fields(part)}
    defaults = {name: value for part in parts for name, value in option_defaults(part).items()}
    text = SHOWN.read_text("utf-8")
    for name, value in shown.items():
        if defaults[name] in (None, ()):
            assert re.search(rf"# {name} = .*# no default|^{name} = ", text, re.MULTILINE), name
        elif name != "format":
            assert value == defaults[name], name


def test_what_is_no_setting_of_a_source_is_that_of_event_logs() -> None:
    both = [
        SHOWN.with_name(f"{name}.toml").read_text("utf-8") for name in ("change-table", "event-log")
    ]
    one, other = (text.partition(SHARED)[2] for text in both)
    assert one == other


def test_all_settings_reach_the_source_and_its_journal(tmp_path: Path) -> None:
    shown = activated() | {"snapshots": ["x"]}
    for name in ("table", "url", "url_env"):
        del shown[name]
    lines = [f"{name} = {_toml(value)}" for name, value in shown.items()]
    (tmp_path / "job.toml").write_text("[[sources]]\n" + "\n".join(lines), "utf-8")
    (source,) = load(tmp_path / "job.toml").sources
    options = source.options
    assert isinstance(options, Options)
    assert (options.images, options.key, options.header_columns) == ("full", ("idu",), 7)
    kept = {field.name: getattr(options, field.name) for field in fields(Options)}
    kept |= {"key": list(options.key), "columns": list(options.columns)}
    again = restored("change-table", kept | {"identifier_case": "as written"}, {})
    assert again.options == options  # type: ignore[attr-defined]


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)

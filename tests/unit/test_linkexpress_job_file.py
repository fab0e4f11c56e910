"""conf/linkexpress.toml shows every setting and its default; what is wrong is told with its line."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from publisher.errors import SettingsError
from publisher.job_file import load, source_parts
from publisher.sections import option_defaults
from publisher.sources.linkexpress import Options
from publisher.sources.linkexpress.options import ExtractedTable
from publisher.sources.registry import restored
from publisher.sources.snapshot_options import SnapshotOptions
from tests.unit.linkexpress_files import GROUP, little

SHOWN = Path(__file__).parents[2] / "conf" / "linkexpress.toml"
SHARED = "# The database with the tables themselves"
_COMMENTED = re.compile(r"# (?=\[|[\w.\"]+ = )")


def activated() -> dict[str, Any]:
    """The source with every commented setting in force."""
    text = SHOWN.read_text("utf-8").partition(SHARED)[0]
    lines = [_COMMENTED.sub("", line, count=1) for line in text.splitlines()]
    (source,) = tomllib.loads("\n".join(lines))["sources"]
    return dict(source)


def test_it_loads_as_it_stands() -> None:
    (source,) = load(SHOWN).for_publish().sources
    assert isinstance(source.options, Options)
    assert [item.type for item in source.options.tables[0].parsed()][
        2
    ] == "NATIONAL CHARACTER VARYING"
    assert source.polls is None


def test_every_setting_is_shown_with_its_default() -> None:
    shown = activated()
    (table,) = shown.pop("tables")
    parts = source_parts("linkexpress")
    known = {field.name for part in parts for field in fields(part)}
    assert {*shown, "table", "tables", "url", "url_env"} == known  # it is not read from a database
    assert set(table) == {field.name for field in fields(ExtractedTable)}
    defaults = {name: value for part in parts for name, value in option_defaults(part).items()}
    defaults |= option_defaults(ExtractedTable)
    text = SHOWN.read_text("utf-8")
    for name, value in (shown | table).items():
        default = defaults.get(name)
        if default in (None, ()):
            assert re.search(rf"# {name} = .*# no default|^{name} = ", text, re.MULTILINE), name
        elif name not in ("format", "name"):
            assert value == default, name


def test_what_is_no_setting_of_a_source_is_that_of_event_logs() -> None:
    texts = [
        SHOWN.with_name(f"{name}.toml").read_text("utf-8") for name in ("linkexpress", "event-log")
    ]
    one, other = (text.partition(SHARED)[2] for text in texts)
    assert one == other


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"difftype": None}, "difftype: is required for a table"),
        ({"nulls": None}, "nulls: is required"),
        ({"extract": None}, "extract: is required"),
        ({"charset": None}, "charset: is required"),
        ({"charset": "JEF-EBCDIC-KANA"}, "no codec is known for 'JEF-EBCDIC-KANA'"),
        (
            {"charset": "cp500", "items": ["idu INTEGER", "n NUMERIC(3)"]},
            "the form of NUMERIC changes",
        ),
        ({"national_charset": "utf-16"}, "names no byte order"),
        ({"national_charset": "UTF-8"}, "national_width: is required"),
        ({"unit": "group"}, "difftype: the records of a group have one form"),
        ({"unit": "group", "difftype": None}, "needs an xid"),
        ({"difftype": "JNL", "nulls": False}, "no manual describes JNL without NULL areas"),
        ({"items": ["idu INTEGER", "x BYTEA"]}, "its form is not documented"),
        ({"items": ["idu INTEGER", "idu INTEGER"]}, "idu stands twice"),
        ({"items": ["idu"]}, "is no item, write"),
        (
            {"items": ["idu INTEGER", "b BLOB(9)"], "logtype": "LITTLE"},
            "blob_head: is required for b",
        ),
        ({"key": ["id"]}, "key: id is not among the items"),
        ({"logtyp": "LITTLE"}, "logtyp"),
        ({"table": "usr"}, "linkexpress is read from files"),
        ({"poll_size": 9}, "poll_size: unknown key"),
    ],
)
def test_what_is_wrong_is_told(change: dict[str, Any], problem: str, tmp_path: Path) -> None:
    source = {name: value for name, value in activated().items() if name in _NEEDED}
    (table,) = source.pop("tables")
    table = {name: table[name] for name in ("name", "key", "items")}
    for name, value in change.items():
        where = table if name in ("items", "key", "logtype", "logtyp") else source
        where[name] = value
    path = tmp_path / "job.toml"
    path.write_text(f"[[sources]]\n{_lines(source)}[[sources.tables]]\n{_lines(table)}", "utf-8")
    with pytest.raises(SettingsError) as error:
        load(path)
    assert problem in str(error.value)


def test_options_come_back_from_a_journal() -> None:
    for options in (GROUP, replace(little(GROUP), extract="all", tables=GROUP.tables[:1])):
        kept = json.loads(json.dumps(asdict(options)))
        again = restored("linkexpress", kept, asdict(SnapshotOptions()))
        assert again.options == options  # type: ignore[attr-defined]


_NEEDED = (
    "format",
    "snapshots",
    "unit",
    "extract",
    "difftype",
    "nulls",
    "charset",
    "national_charset",
    "tables",
)


def _lines(table: dict[str, Any]) -> str:
    said = {name: value for name, value in table.items() if value is not None}
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in said.items())

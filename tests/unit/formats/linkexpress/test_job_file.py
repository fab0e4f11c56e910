"""conf/linkexpress.toml shows a table; what is wrong is told with its line."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from publisher.config.job_file import load
from publisher.errors import SettingsError
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.linkexpress import LinkexpressOptions
from publisher.formats.registry import FORMATS
from tests.support.linkexpress_files import GROUP, little
from tests.support.settings_reference import activate_examples, load_source, toml_lines


def test_items_are_shown_with_their_types() -> None:
    options = load_source("linkexpress").options
    assert isinstance(options, LinkexpressOptions)
    types = [item.type for item in options.tables[0].parse_items()]
    assert types[2] == "NATIONAL CHARACTER VARYING"


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
            "the form of NUMERIC in it",
        ),
        ({"national_charset": "utf-16"}, "names no byte order"),
        ({"national_charset": "UTF-8"}, "national_width: is required"),
        ({"unit": "group"}, "difftype: the records of a group have one form"),
        ({"unit": "group", "difftype": None}, "needs an xid"),
        ({"difftype": "JNL", "nulls": False}, "no manual describes JNL without NULL areas"),
        ({"items": ["idu INTEGER", "x BYTEA"]}, "its form is not documented"),
        ({"items": ["idu INTEGER", "idu INTEGER"]}, "idu appears twice"),
        ({"items": ["idu"]}, "is not an item; write"),
        ({"items": ["idu INTEGER", "n DAT"]}, "(usr) items: n: 'DAT' is not a type"),
        ({"items": ["idu INTEGER"], "key": ["n"]}, "(usr) key: n is not among the items"),
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
    source = {
        name: value for name, value in activate_examples("linkexpress").items() if name in _NEEDED
    }
    (table,) = source.pop("tables")
    table = {name: table[name] for name in ("name", "key", "items")}
    for name, value in change.items():
        where = table if name in ("items", "key", "logtype", "logtyp") else source
        where[name] = value
    path = tmp_path / "job.toml"
    path.write_text(
        f"[[sources]]\n{toml_lines(source)}[[sources.tables]]\n{toml_lines(table)}", "utf-8"
    )
    with pytest.raises(SettingsError) as error:
        load(path)
    assert problem in str(error.value)


def test_options_come_back_from_a_ledger() -> None:
    for options in (GROUP, replace(little(GROUP), extract="all", tables=GROUP.tables[:1])):
        kept = json.loads(json.dumps(asdict(options)))
        again = FORMATS["linkexpress"].restore(kept, asdict(SnapshotOptions()))
        assert again.options == options


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

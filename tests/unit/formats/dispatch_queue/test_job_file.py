"""conf/dispatch-queue.toml shows a table; what is wrong is told with its line."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from publisher.config.job_file import load
from publisher.errors import SettingsError
from publisher.formats.dispatch_queue import DispatchQueueOptions
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.registry import FORMATS
from tests.support.dispatch_queue_files import OPTIONS, options
from tests.support.settings_reference import load_source, toml_lines

NEEDED = {"null_mode": "none", "image_charset": "cp866", "length_counted": True}
ATTRIBUTES = """\
TABNUM_SRC,NAME,ATRNUM,TYP,PKEY,LEN
7,lname               ,3,8,0,14
7,idu                 ,1,2,1,4
7,"first name",2,1,0,8
9,id,1,2,1,8
9,seen,2,4,0,16
"""


def job(tmp_path: Path, export: str | None, **settings: Any) -> Path:
    """A job file with these settings; ``tables`` may be among them."""
    if export is not None:
        (tmp_path / "attrs.csv").write_text(export, "utf-8")
    tables = settings.pop("tables", [])
    source = {"format": "dispatch-queue"} | settings
    text = "[[sources]]\n" + toml_lines(source)
    text += "".join("[[sources.tables]]\n" + toml_lines(table) for table in tables)
    path = tmp_path / "job.toml"
    path.write_text(text, "utf-8")
    return path


def test_columns_are_shown_with_their_types() -> None:
    options = load_source("dispatch-queue").options
    assert isinstance(options, DispatchQueueOptions)
    assert [column.type for column in options.tables[0].parse_columns()] == [
        "INTEGER",
        "CHAR",
        "VARCHAR",
        "DECIMAL",
    ]


def test_columns_come_from_an_export_of_dispatch_attrs(tmp_path: Path) -> None:
    tables = [{"number": 9, "name": "seen"}, {"number": 5, "columns": ["a INTEGER"], "key": ["a"]}]
    path = job(tmp_path, ATTRIBUTES, attributes="attrs.csv", tables=tables, **NEEDED)
    (source,) = load(path).sources
    assert isinstance(source.options, DispatchQueueOptions)
    assert source.options.attributes is None
    assert [table.number for table in source.options.tables] == [7, 9, 5]
    usr, seen, _ = source.options.tables
    assert usr.columns == ("idu INTEGER", '"first name" CHAR(8)', "lname VARCHAR(12)")
    assert (usr.key, usr.numbers, usr.name) == (("idu",), (1, 2, 3), None)
    assert (seen.columns, seen.name) == (("id BIGINT", "seen DATE"), "seen")


@pytest.mark.parametrize(
    ("attributes", "settings", "problem"),
    [
        (ATTRIBUTES, {"length_counted": None}, "length_counted: is required for column lname"),
        (ATTRIBUTES, {"null_mode": None}, "null_mode: is required for the images of table 7"),
        (ATTRIBUTES, {"null_mode": "byte_after"}, "null_flag: is required"),
        (ATTRIBUTES, {"null_mode": "bitmap_prefix"}, "null_bits: is required"),
        (ATTRIBUTES, {"image_charset": None}, "image_charset: is required"),
        (ATTRIBUTES, {"image_charset": "JEF"}, "image_charset: JEF is not a known"),
        (
            ATTRIBUTES,
            {"tables": [{"number": 7, "image_charset": "JEF"}]},
            "image_charset: JEF is not a known",
        ),
        (ATTRIBUTES.replace(",1,4\n", ",0,4\n"), {}, "table 7 needs key"),
        (ATTRIBUTES.replace(",4,0,16", ",77,0,16"), {}, "has TYP 77 and LEN 16"),
        (ATTRIBUTES.replace(",2,1,8", ",2,1,3"), {}, "has TYP 2 and LEN 3"),
        (ATTRIBUTES.replace("LEN", "SIZE"), {}, "has no column LEN"),
        (ATTRIBUTES + "7,x,one,1,0,8\n", {}, "line 7: integers and a name are expected"),
        (ATTRIBUTES + "7,x,1,1,0,8\n", {}, "has a column of table 7 twice"),
        (None, {}, "attrs.csv: No such file"),
        (ATTRIBUTES, {"encoding": "utf-16"}, "attrs.csv is not utf-16; set encoding"),
        (ATTRIBUTES + "\n", {"encoding": "utf-16"}, "attrs.csv is not utf-16; set encoding"),
        (ATTRIBUTES.replace(",4,0,16", ",10,0,5"), {}, "boolean_true: is required"),
        (ATTRIBUTES.replace(",4,0,16", ",11,0,8"), {}, "nchar_order: is required"),
        (ATTRIBUTES, {"boolean_true": "yes"}, "boolean_true: write bytes in hex"),
        (ATTRIBUTES, {"time_zone": "Moscow"}, "time_zone: 'Moscow' is not known"),
        (ATTRIBUTES, {"row_stride": 4000}, "row_stride"),
        (ATTRIBUTES, {"tables": [{"number": 1, "columns": ["a INT"], "key": ["b"]}]}, "key: b is"),
        (ATTRIBUTES, {"tables": [{"number": 1, "columns": ["a TEXT"]}]}, "TEXT is not a type"),
        (
            ATTRIBUTES,
            {"tables": [{"number": 1, "columns": ["a INT"], "numbers": [1, 2]}]},
            "numbers",
        ),
        (
            ATTRIBUTES,
            {
                "null_mode": "byte_before",
                "null_flag": 1,
                "tables": [{"number": 1, "columns": ["a INT"], "key": ["a"], "offsets": [0]}],
            },
            "table 1 has the offset 0, but byte_before has a byte before it",
        ),
        (
            ATTRIBUTES,
            {"tables": [{"number": 1}, {"number": 1}]},
            "a number appears twice for one node",
        ),
        (ATTRIBUTES, {"tables": [{"number": 1, "colums": ["a INT"]}]}, "colums"),
        (ATTRIBUTES, {"table": "usr"}, "dispatch-queue is read from files"),
        (ATTRIBUTES, {"poll_size": 9}, "poll_size: unknown key"),
    ],
)
def test_wrong_settings_are_refused_with_advice(
    attributes: str | None, settings: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    path = job(tmp_path, attributes, **{"attributes": "attrs.csv"} | NEEDED | settings)
    with pytest.raises(SettingsError) as error:
        load(path)
    assert problem in str(error.value)


EVERY_TYPE = ATTRIBUTES + "9,on,3,10,0,1\n9,wide,4,11,0,8\n"


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    tables = [{"number": 5, "columns": ["a BOOLEAN(1)"], "key": ["a"]}, {"number": 9, "key": []}]
    path = job(tmp_path, EVERY_TYPE, attributes="attrs.csv", tables=tables)
    with pytest.raises(SettingsError) as error:
        load(path)
    required = {p.key[-1]: p.text for p in error.value.problems if "is required" in p.text}
    names = ["length_counted", "null_mode", "image_charset", "boolean_true", "nchar_order"]
    assert set(required) == set(names)
    modes = 'write one of "none", "byte_before", "byte_after", "bitmap_prefix", "bitm'
    assert modes in required["null_mode"]
    # what is left once they are said
    settings = NEEDED | {"boolean_true": "01", "boolean_false": "00", "nchar_order": "little"}
    load(job(tmp_path, EVERY_TYPE, attributes="attrs.csv", tables=tables, **settings))


def test_all_that_is_missing_is_told_without_attributes(tmp_path: Path) -> None:
    tables = [
        {"number": 5, "columns": ["a INTEGER", "b CHAR(3)"]},
        {"number": 6, "columns": ["a INTEGER", "b BOOLEAN(1)"]},
    ]
    with pytest.raises(SettingsError) as error:
        load(job(tmp_path, None, time_zone="Moscow", tables=tables))
    settings = str(error.value)
    for what in ("time_zone", "null_mode", "image_charset", "boolean_true"):
        assert settings.count(f"{what}: ") == 1
    assert "tables: table 5 needs key" in settings
    assert "tables: table 6 needs key" in settings


def test_options_come_back_from_a_ledger() -> None:
    for used in (OPTIONS, options(nodes=("A",), row_stride=3600)):
        kept = json.loads(json.dumps(asdict(used), default=str))
        again = FORMATS["dispatch-queue"].restore(kept, asdict(SnapshotOptions()))
        assert again.options == used

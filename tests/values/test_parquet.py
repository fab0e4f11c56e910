"""Values of Parquet columns do not depend on how the column is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.consumer import Add, part_files, read_files
from tests.values.ways import run

MOMENTS = {
    253402214400000: "9999-12-31 00:00:00.0",
    -30610224000000: "1000-01-01 00:00:00.0",
    631152000500: "1990-01-01 00:00:00.5",
    -1: "1969-12-31 23:59:59.999",
    9223372036854: "2262-04-11 23:47:16.854",
    9223372036855: "2262-04-11 23:47:16.855",
    -9223372036855: "1677-09-21 00:12:43.145",
}
"""Milliseconds since 1970, and the text in documents."""
FORMS: Mapping[str, dict[str, Any]] = {
    "int96": {"use_deprecated_int96_timestamps": True},
    "milliseconds": {"coerce_timestamps": "ms"},
    "microseconds": {"coerce_timestamps": "us"},
}
TEXTS = ["Müller", "", "a\tb", "QUI="]
TEXT_TYPES = {
    "string": pa.string(),
    "large": pa.large_string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "binary": pa.binary(),
    "large-binary": pa.large_binary(),
}


def published(
    directory: Path, table: pa.Table, options: Mapping[str, Any], settings: str
) -> dict[str, dict[str, tuple[str | None, str]]]:
    """Type and text of each value that a comparison of a Parquet file publishes, by object."""
    source = directory / "in"
    source.mkdir()
    pq.write_table(table, source / "usr.parquet", **options)
    job = directory / "job.toml"
    job.write_text(
        f'[[sources]]\nname = "cmp"\nformat = "triggerless"\nsnapshots = [{json.dumps(str(source))}]\n'
        f'key = {{usr = ["id"]}}\n{settings}[documents]\ntime_syntax = 3\n[run]\nengine = "local"\n'
        f"[dispatch]\npath = {json.dumps(str(directory / 'out'))}\n"
        f"[ledger]\npath = {json.dumps(str(directory / 'ledger_run'))}\n"
    )
    run("publish", "-c", str(job))
    objects: dict[str, dict[str, tuple[str | None, str]]] = {}
    for delivery in read_files(part_files(directory / "out")):
        for operation in delivery.operations:
            assert isinstance(operation, Add)
            objects[operation.association] = {
                change.attribute: (change.value.type, change.value.text)
                for change in operation.changes
            }
    return objects


@pytest.mark.parametrize("form", list(FORMS))
def test_moments_are_exact_in_every_form(form: str, tmp_path: Path) -> None:
    table = pa.table(
        {"id": range(len(MOMENTS)), "moment": pa.array([*MOMENTS], pa.timestamp("ms"))}
    )
    settings = '[tables.usr]\ncolumns = {id = "int", moment = "timestamp"}\n'
    assert published(tmp_path, table, FORMS[form], settings) == {
        f"id={number},table=usr": {"moment": ("string", text)}
        for number, text in enumerate(MOMENTS.values())
    }


def test_int96_keeps_nanoseconds(tmp_path: Path) -> None:
    moment = pa.array([1767225600123456789], pa.timestamp("ns"))
    settings = '[tables.usr]\ncolumns = {id = "int", moment = "timestamp"}\n'
    table = pa.table({"id": [1], "moment": moment})
    assert published(tmp_path, table, FORMS["int96"], settings) == {
        "id=1,table=usr": {"moment": ("string", "2026-01-01 00:00:00.123456789")}
    }


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("form", list(TEXT_TYPES))
def test_text_is_text_in_every_form(form: str, declared: bool, tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(["a", "b", "c", "d"]), "name": pa.array(TEXTS)})
    table = table.cast(pa.schema([(name, TEXT_TYPES[form]) for name in table.column_names]))
    settings = '[tables.usr]\ncolumns = {id = "string"}\n' if declared else ""
    assert published(tmp_path, table, {}, settings) == {
        f"id={key},table=usr": {"name": ("string", text)}
        for key, text in zip("abcd", TEXTS, strict=True)
    }


def test_binary_columns_are_declared(tmp_path: Path) -> None:
    table = pa.table({"id": ["a"], "photo": pa.array([b"\xff\x00"], pa.binary())})
    settings = '[tables.usr]\ncolumns = {photo = "octet"}\n'
    assert published(tmp_path, table, {}, settings) == {
        "id=a,table=usr": {"photo": ("octet", "/wA=")}
    }

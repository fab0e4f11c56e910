"""Messages about files and settings of Linkexpress that do not fit, and the output of ``inspect``."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.errors import FatalError
from publisher.formats.linkexpress import LinkexpressOptions
from publisher.formats.linkexpress.types import parse_item
from tests.support.linkexpress_files import (
    GROUP,
    JNL,
    OPEN,
    USR,
    group_source,
    jack,
    little,
    mark,
    read,
    record,
    record_text,
)

FORMS = {"open": OPEN, "little": little(OPEN), "jnl": JNL, "group": GROUP}


def rows(options: LinkexpressOptions, code: int, count: int = 30) -> bytes:
    return b"".join(record(options, *jack(n, code)) for n in range(1, count + 1))


def refusal(options: LinkexpressOptions, data: bytes, folder: Path) -> str:
    with pytest.raises(FatalError) as error:
        read(options, data, folder)
    return error.value.message


@pytest.mark.parametrize(("pack", "tool"), [(gzip.compress, "gunzip"), (bz2.compress, "bunzip2")])
@pytest.mark.parametrize("name", FORMS)
def test_a_compressed_file_is_called_so(
    name: str, pack: Callable[[bytes], bytes], tool: str, tmp_path: Path
) -> None:
    data = pack(rows(FORMS[name], 1))
    for order in ("auto", "big", "little"):
        message = refusal(replace(FORMS[name], byte_order=order), data, tmp_path)
        assert f"it is compressed: unpack it first ({tool})" in message


@pytest.mark.parametrize("extract", ["all", "diff"])
def test_a_cut_file_is_called_so(extract: Literal["all", "diff"], tmp_path: Path) -> None:
    options = replace(OPEN, extract=extract, byte_order="big")
    data = rows(options, 0 if extract == "all" else 1)
    assert "the last one has 28 of 33 bytes: the file was truncated" in refusal(
        options, data[:-5], tmp_path
    )
    for name in ("little", "jnl", "group"):
        data = rows(FORMS[name], 1, 1)
        message = refusal(FORMS[name], data[:-3], tmp_path)
        assert (
            f"LEN is {len(data)}, but {len(data) - 3} bytes are left: the file was truncated"
            in message
        )


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("a CHAR(0)", "CHARACTER(0) holds nothing"),
        ("a NCHAR(0)", "NATIONAL CHARACTER(0) holds nothing"),
        ("a VARCHAR(0K)", "CHARACTER VARYING(0) holds nothing"),
        ("a INTERVAL YEAR(0) TO MONTH", "YEAR(0) holds nothing"),
    ],
)
def test_types_without_any_content_are_refused(item: str, message: str) -> None:
    with pytest.raises(ValueError, match="holds nothing") as error:
        parse_item(item)
    assert message in str(error.value)
    assert parse_item("a CHAR").length == 1


@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        ("YEAR(4) TO MONTH", {"YEAR": 12, "MONTH": 11}, "12-11"),
        ("YEAR(4) TO MONTH", {"YEAR": 12, "MONTH": 13}, None),
        ("YEAR(4) TO MONTH", {"YEAR": 9999, "MONTH": 0}, "9999-00"),
        ("YEAR(3)", {"YEAR": 1000}, None),
        ("MONTH", {"MONTH": 13}, "13"),
        ("DAY TO SECOND", {"DAY": 99, "HOUR": 23, "MINUTE": 59, "SECOND": 59}, "99 23:59:59"),
        ("DAY TO SECOND", {"DAY": 1, "HOUR": 24, "MINUTE": 0, "SECOND": 0}, None),
        ("DAY TO SECOND", {"DAY": 1, "HOUR": 0, "MINUTE": 60, "SECOND": 0}, None),
        ("DAY TO SECOND", {"DAY": 1, "HOUR": 0, "MINUTE": 0, "SECOND": 60}, None),
    ],
)
def test_fields_of_intervals_stay_in_range(
    kind: str, fields: dict[str, int], text: str | None, tmp_path: Path
) -> None:
    table = replace(USR, items=("idu INTEGER", f"age INTERVAL {kind}"))
    options = replace(JNL, tables=(table,))
    records, _ = read(options, record(options, 0, 1, [1, {"sign": b"+", **fields}]), tmp_path)
    assert record_text(records[0]) == ("rejected value" if text is None else f"1 idu=1 age={text}")


JOB = group_source()


def test_inspect_shows_the_records_of_a_file_in_order_and_held_ones_with_values(
    tmp_path: Path,
) -> None:
    title = "北京　　".encode("cp932")
    parts = [
        record(GROUP, *jack(1)),
        record(GROUP, 1, 1, [1, title]),
        mark(GROUP),
        record(GROUP, 1, 2, [2, title])[:6] + b"\0\t" + record(GROUP, 1, 2, [2, title])[8:],
        record(GROUP, *jack(2)),
        mark(GROUP),
        record(GROUP, 1, 1, [3, title]),
        record(GROUP, *jack(3, 2)),
    ]
    (tmp_path / "usr.dat").write_bytes(b"".join(parts))
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    done = CliRunner().invoke(
        cli, ["inspect", str(tmp_path / "usr.dat"), "-c", str(tmp_path / "job.toml")]
    )
    assert done.exit_code == 0, done.output
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    starts = [sum(map(len, parts[:n])) for n in range(len(parts))]
    assert [each["record"] for each in shown] == starts
    assert [each.get("outcome") for each in shown] == [
        *(None, None, "ignored", "rejected", None, "ignored", "held", "held")
    ]
    assert [(each["table"], each["key"], each["event_type"]) for each in shown[6:]] == [
        ("dept", "no=3", 1),
        ("usr", "idu=3", 3),
    ]
    assert shown[7]["columns"][0] == {"name": "fname", "new": "Jack"}

"""Samples of the table queue: code pages, records, envelopes, files, and unusable calls."""

from __future__ import annotations

import gzip
import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.cli.main import cli
from publisher.errors import FatalError, UsageError
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.table_queue.calls import Call, to_micros
from publisher.formats.table_queue.code_pages import code_page_of
from publisher.formats.table_queue.json_calls import json_line
from publisher.formats.table_queue.layout import BULK_CALL, columns_of, dirr_out
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.formats.table_queue.reading import form_of, read_samples, sample_files, sample_splits
from tests.support.bulk_calls import BulkFile
from tests.support.table_queue_files import OPTIONS, START, call, element, line, read, text_file

HEADER = BulkFile(72, "HR", "CP866")


def name_of(field: bytes, page: str, order: Any = "little") -> tuple[str, bool]:
    return tuple(code_page_of(page, order).name(field))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("page", "field", "name"),
    [
        ("UTF-8", "D09BD0AED094D098" + "20" * 4, "ЛЮДИ"),
        ("utf8", "41002020", "A"),
        ("CP866", "8B9E8488", "ЛЮДИ"),
        ("866", "8B9E8488", "ЛЮДИ"),
        ("CP1251", "CBDEC4C8", "ЛЮДИ"),
        ("KOI8-R", "ECE0E4E9", "ЛЮДИ"),
        ("20127", "41422020", "AB"),
        ("UCS2", "1B042E04200020000000FFFF", "ЛЮ"),
        ("UCS2", "1B042E04", "ЛЮ"),
        ("UCS2", "00040001", "ЀĀ"),  # no NUL character, though two NUL bytes stand together
        ("UCS2", "412E0020", "⹁\u2000"),  # not a blank, though one of its bytes is
        ("UTF-8", "20412020", " A"),
        ("UTF-8", "2020", ""),
    ],
)
def test_names_in_their_code_page(page: str, field: str, name: str) -> None:
    assert name_of(bytes.fromhex(field), page) == (name, False)


def test_ucs2_follows_the_byte_order() -> None:
    assert name_of(bytes.fromhex("041B042E0020"), "UCS2", "big") == ("ЛЮ", False)


@pytest.mark.parametrize(
    ("page", "field", "name"),
    [
        ("UTF-8", "41D0", "A\ufffd"),
        ("UTF-8", "41E282", "A\ufffd"),
        ("UCS2", "41003DD8", "A\ufffd"),  # half of a surrogate pair
        ("UCS2", "410041", "A\ufffd"),  # an odd byte at the end of the field
        ("EUC-JP", "41C6", "A\ufffd"),
    ],
)
def test_a_character_that_is_cut_is_marked(page: str, field: str, name: str) -> None:
    assert name_of(bytes.fromhex(field), page) == (name, True)


@pytest.mark.parametrize(
    ("page", "field"),
    [("UTF-8", "41D041"), ("UTF-8", "FF41"), ("20127", "8B"), ("UCS2", "00DC4100")],
)
def test_bytes_that_are_not_text_are_refused(page: str, field: str) -> None:
    with pytest.raises(ValueError, match=r"byte . of the name is no"):
        name_of(bytes.fromhex(field), page)


@pytest.mark.parametrize(
    "page",
    ["", "zlib", "rot13", "utf-16", "utf-7", "cp037", "idna", "unicode_escape", "\0", "x" * 99],
)
def test_an_unknown_code_page_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="is not a known code page; write UTF-8"):
        code_page_of(page, "little")


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=40))
def test_a_name_cut_by_its_field_is_the_beginning_of_the_name(name: str) -> None:
    for page, codec in [("UTF-8", "utf-8"), ("UCS2", "utf-16-le")]:
        field = name.encode(codec)[:33]
        found, cut = name_of(field, page)
        assert name.startswith(found.removesuffix("\ufffd") if cut else found)
        if not cut:
            assert field.startswith(found.encode(codec))


@pytest.mark.parametrize(
    ("long_bytes", "length", "size"),
    [(4, 66, 72), (4, 65, 72), (4, 64, 72), (4, 63, 72), (4, 18, 24), (8, 66, 80)],
)
def test_the_size_of_dirr_out(long_bytes: Any, length: int, size: int) -> None:
    options = TableQueueOptions(long_bytes, length)
    assert dirr_out(options).sizeof() == size == columns_of(dirr_out(options)).itemsize


@given(
    st.sampled_from([4, 8]),
    st.integers(1, 70),
    st.sampled_from(["little", "big"]),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**16 - 1),
    st.binary(min_size=70, max_size=70),
)
def test_bulk_reading_matches_the_declaration(
    long_bytes: Any, length: int, order: Any, owner: int, updated: int, name: bytes
) -> None:
    declared = dirr_out(TableQueueOptions(long_bytes, length, order))
    fields = {"owner": owner, "table": name[:length], "updated": updated}
    data = declared.build(fields)
    row = np.frombuffer(data, columns_of(declared))[0]
    found = {name: row[name].tobytes() if name == "table" else int(row[name]) for name in fields}
    parsed = declared.parse(data)
    assert found == fields == {name: parsed[name] for name in fields}


def test_an_envelope_in_bulk_matches_its_declaration() -> None:
    values = dict(zip(columns_of(BULK_CALL).names or (), range(1, 9), strict=True))
    row = np.frombuffer(BULK_CALL.build(values), columns_of(BULK_CALL))[0]
    assert {name: int(row[name]) for name in values} == values


CALLS = st.builds(
    Call,
    sweep=st.integers(0, 2**63),
    time=st.datetimes(datetime(1971, 1, 1), datetime(9990, 1, 1)).map(  # noqa: DTZ001
        lambda moment: moment.replace(tzinfo=timezone(timedelta(hours=3)))
    ),
    ordinal=st.integers(1, 2**31 - 1),
    completion=st.sampled_from(["NORMAL", "EORR", "SMALLBUFKOR"]),
    record=st.none() | st.binary(max_size=80),
    node=st.just("HR"),
    code_page=st.just("CP866"),
    system_error=st.none() | st.integers(-(2**31), 2**31 - 1),
)


def write_recordings(calls: Sequence[Call], directory: Path) -> list[Path]:
    """Writes calls as JSON lines and in bulk."""
    header = BulkFile(80, "HR", "CP866")
    bulk = directory / "calls.dirr"
    bulk.write_bytes(header.build() + b"".join(map(header.build_call, calls)))
    return [text_file(directory / "calls.jsonl", [json_line(each) for each in calls]), bulk]


@settings(max_examples=30)
@given(st.lists(CALLS, max_size=5))
def test_calls_of_a_recorder_are_read_again(
    tmp_path_factory: pytest.TempPathFactory, calls: list[Call]
) -> None:
    options = replace(OPTIONS, identifier_length=62)
    lines, bulk = write_recordings(calls, tmp_path_factory.mktemp("calls"))
    text, packed = read(lines, options), read(bulk, options)
    own = {"file", "row"}
    assert [strip(row, own) for row in text] == [strip(row, own) for row in packed]
    for row, each in zip(text, calls, strict=True):
        assert (row["sweep"], row["time"]) == (str(each.sweep), to_micros(each.time))
        assert (row["ordinal"], row["completion"]) == (each.ordinal, each.completion)
        assert row["system_error"] == each.system_error
        fits = each.record is not None and len(each.record) == 68
        assert row["problem"] is None or each.completion == "NORMAL"
        assert fits or each.completion != "NORMAL" or row["problem"] in ("length", "record")


def strip(row: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def problem(row: dict[str, Any]) -> str | None:
    assert row["detail"] is None or ";" in row["detail"]  # it ends with what to do
    found: str | None = row["problem"]
    return found


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sweep": ...}, "sweep"),
        ({"sweep": " "}, "sweep"),
        ({"sweep": [1]}, "sweep"),
        ({"time": ...}, "time"),
        ({"time": "yesterday"}, "time"),
        ({"time": "0001-01-01T00:00:00+23:00"}, "time"),
        ({"time": "1969-12-31T23:59:59Z"}, "time"),
        ({"ordinal": 0}, "ordinal"),
        ({"ordinal": 2**31}, "ordinal"),
        ({"ordinal": "x"}, "ordinal"),
        ({"ordinal": 4.5}, "ordinal"),
        ({"ordinal": 10**50}, "ordinal"),
        ({"node": {}}, "node"),
        ({"node": "n" * 1001}, "node"),
        ({"node": "\ud800"}, "node"),
        ({"completion": ..., "code": ...}, "completion"),
        ({"completion": ..., "code": 99}, "completion"),
        ({"completion": "NORMAL", "code": 1205}, "completion"),
        ({"completion": "EORR", "code": 0}, "completion"),
        ({"completion": "EORR", "code": 77}, "completion"),
        ({"code": 2**31}, "code"),
        ({"record": ...}, "record"),
        ({"record": "0G"}, "hex"),
        ({"record": "000"}, "hex"),
        ({"record": 5}, "hex"),
        ({"record": ["00"]}, "hex"),
        ({"record": ""}, "length"),
        ({"record": "00" * 71}, "length"),
        ({"record": "00" * 73}, "length"),
        ({"record": element("").hex()}, "name"),
        ({"record": element(b"A\xd0A").hex(), "code_page": "UTF-8"}, "name"),
        ({"code_page": "zlib"}, "code-page"),
        ({"code_page": "x" * 900}, "code-page"),
    ],
)
def test_an_unusable_call(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = text_file(tmp_path / "a.jsonl", [line(), line(**fields), line()])
    rows = read(path)
    assert sorted((row["row"], problem(row)) for row in rows if row["problem"]) == [(2, message)]
    assert len(rows) == 3
    record = fields.get("record")
    if message in ("length", "name"):
        assert rows[1]["raw"] == record  # whole, however long it is
    assert Counter(row["table"] for row in rows) == {"PERSON": 2, None: 1}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"completion": ...}, "NORMAL"),
        ({"code": ...}, "NORMAL"),
        ({"completion": " normal "}, "NORMAL"),
        ({"completion": "EORR", "code": 1205}, "EORR"),
        ({"completion": ..., "code": 1206}, "SMALLBUFKOR"),
        ({"completion": "LOCKED", "code": 77}, "LOCKED"),
        ({"completion": "EORR", "code": ...}, "EORR"),
    ],
)
def test_completion_codes_by_name_or_number(
    tmp_path: Path, fields: dict[str, Any], name: str
) -> None:
    (row,) = read(text_file(tmp_path / "a.jsonl", [line(**fields)]))
    assert (row["completion"], row["problem"]) == (name, None)


def test_unknown_numbers_of_codes_are_not_guessed(tmp_path: Path) -> None:
    bare = TableQueueOptions(code_page="CP866")
    (row,) = read(text_file(tmp_path / "a.jsonl", [line(completion=..., code=1205)]), bare)
    assert (row["problem"], row["completion"]) == ("completion", None)
    assert row["detail"].endswith("or set normal, smallbufkor, eorr")


def test_without_a_code_page_no_name_is_read(tmp_path: Path) -> None:
    options = replace(OPTIONS, code_page=None)
    rows = read(text_file(tmp_path / "a.jsonl", [line(), line(code_page="UTF-8")]), options)
    assert [row["problem"] for row in rows] == ["code-page", None]


def test_flags_other_than_0_and_1_are_kept_with_a_warning(tmp_path: Path) -> None:
    (row,) = read(text_file(tmp_path / "a.jsonl", [line(record=element("A", 5, 65535).hex())]))
    assert (row["updated"], row["warning"], row["problem"]) == (65535, "flag", None)


def test_lines_that_are_not_calls_affect_no_other(tmp_path: Path) -> None:
    broken = [b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"sweep":1,"sweep":2}', b"[" * 9999, b"  "]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([line().encode(), *broken, line().encode()]))
    rows = read(path)
    assert Counter(row["problem"] for row in rows) == {None: 2, "json": 6}
    assert sorted(row["row"] for row in rows if row["problem"]) == [3, 4, 5, 6, 7, 8]


def test_a_line_without_end_and_one_too_long(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line() + "\n" + "x" * 500 + "\n" + line() + "\n" + line()[:-9], "utf-8")
    rows = read(path, reading=SnapshotOptions(max_record=400))
    assert sorted((row["row"], row["problem"] or "") for row in rows) == [
        (1, ""),
        (2, "json"),
        (3, ""),
        (4, "json"),
    ]


@pytest.mark.parametrize("splits", [1, 2, 5, 100])
def test_splits_change_nothing(tmp_path: Path, splits: int) -> None:
    calls = [call(n, element(f"T{n}", n), code_page="CP866", node="HR") for n in range(1, 40)]
    text = text_file(tmp_path / "a.jsonl", [json_line(each) for each in calls])
    bulk = tmp_path / "b.dirr"
    bulk.write_bytes(HEADER.build() + b"".join(map(HEADER.build_call, calls)))
    bare = tmp_path / "c.raw"
    bare.write_bytes(b"".join(each.record or b"" for each in calls))
    reading = SnapshotOptions(block_size=64)
    for path in (text, bulk, bare):
        assert read(path, OPTIONS, splits, reading) == read(path)
        count = len(sample_splits([path], OPTIONS, splits, reading))
        assert count == 1 if path == text else count >= min(splits, 2)


def test_a_damaged_bulk_file(tmp_path: Path) -> None:
    calls = [
        HEADER.build_call(call(n, element("A"), code_page="CP866", node="HR")) for n in range(1, 6)
    ]
    damaged = bytearray(b"".join(calls))
    damaged[104 + 16 : 104 + 20] = bytes(4)  # ordinal 0
    damaged[208 + 8 : 208 + 16] = b"\xff" * 8  # time -1
    damaged[312 + 30] = 9  # completion
    damaged[416 + 28 : 416 + 30] = b"\xff\xff"  # length
    path = tmp_path / "a.dirr"
    path.write_bytes(HEADER.build() + damaged)
    rows = read(path)
    assert sorted((row["row"], row["problem"] or "") for row in rows) == [
        (64, ""),
        (168, "ordinal"),
        (272, "time"),
        (376, "completion"),
        (480, "length"),
    ]


def test_bulk_records_of_another_size_are_not_resized(tmp_path: Path) -> None:
    path = tmp_path / "a.dirr"
    header = BulkFile(80, "HR", "CP866")
    records_ = [element("A"), element("A") + bytes(8), element("A")[:-1]]
    calls = [call(n, record, code_page="CP866", node="HR") for n, record in enumerate(records_, 4)]
    path.write_bytes(header.build() + b"".join(map(header.build_call, calls)))
    assert [row["problem"] for row in read(path)] == [None, "length", "length"]
    small = BulkFile(24, "HR", "CP866")
    path.write_bytes(small.build() + small.build_call(replace(calls[0], record=bytes(24))))
    assert [(row["problem"], row["raw"]) for row in read(path)] == [("length", "00" * 24)]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"XDSDIRR\x02" + bytes(56), "bulk file of version 2, but this program reads version 1"),
        (b"XDSDIRR\x01" + bytes(56), "0 is not a possible record size"),
        (b"XDSDIRR\x01\xff\xff\xff\xff" + bytes(52), "4294967295 is not a possible record size"),
        (b"XDSDIRR\x01H\0\0\0" + b"\xff" * 16 + bytes(36), "header of the bulk file is damaged"),
        (b"XDSDIRR\x01H\0\0\0" + bytes(48) + b"xxxx", "header of the bulk file is damaged"),
        (b"XDSDIRR\x01", "the header is missing"),
        (b"nothing of the kind, but long enough to be one of its headers, really", "missing"),
    ],
)
def test_a_file_of_another_form_ends_the_run(tmp_path: Path, start: bytes, message: str) -> None:
    path = tmp_path / "a.dirr"
    path.write_bytes(start)
    with pytest.raises(FatalError, match=message):
        read(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"node": "OTHER"},
        {"code_page": "UTF-8"},
        {"record": bytes(73)},
        {"completion": "LOCKED"},
    ],
)
def test_a_call_that_does_not_fit_a_bulk_file_is_not_written(wrong: dict[str, Any]) -> None:
    right = call(4, element("A"), code_page="CP866", node="HR")
    with pytest.raises(ValueError, match=r"another|number"):
        HEADER.build_call(replace(right, **wrong))


def test_files_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    names = [
        "day/a.jsonl",
        "a.jsonl",
        "b.NDJSON.gz",
        "c.dirr",
        "d.raw",
        "e.txt",
        ".f.raw",
        "g.raw.gz",
    ]
    for name in names:
        (tmp_path / name).touch()
    found = [str(path.relative_to(tmp_path)) for path in sample_files([tmp_path])]
    assert found == ["a.jsonl", "b.NDJSON.gz", "c.dirr", "d.raw", "day/a.jsonl"]
    assert form_of(Path("x")) is None
    for name, message in [("e.txt", "form of the samples"), ("none", "does not exist")]:
        with pytest.raises(UsageError, match=message):
            sample_files([tmp_path / name])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no samples in"):
        sample_files([tmp_path / "empty"])
    assert sample_files([tmp_path / "empty"], may_be_none=True) == []


def test_packed_lines_and_empty_files(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(f"{line()}\n".encode()))
    assert [row["table"] for row in read(path)] == ["PERSON"]
    path.write_bytes(gzip.compress(f"{line()}\n".encode())[:-20])
    with pytest.raises(FatalError, match="the compressed file is cut"):
        read(path)
    for name in ("b.jsonl", "b.dirr", "b.raw"):
        (tmp_path / name).touch()
        assert read(tmp_path / name) == []


def test_a_file_that_has_become_shorter_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(element("A"))
    (split,) = sample_splits([path], OPTIONS, 1)
    path.write_bytes(b"")
    with pytest.raises(FatalError, match="has become shorter"):
        list(read_samples(split, OPTIONS))


@given(st.binary(max_size=400), st.sampled_from(["a.jsonl", "a.raw", "a.dirr"]))
def test_any_bytes_give_rows_and_no_crash(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str
) -> None:
    path = tmp_path_factory.mktemp("any") / name
    path.write_bytes(HEADER.build() + data if name == "a.dirr" else data)
    refusal = None
    try:
        rows = read(path)
    except FatalError as error:
        refusal = error.message
    if refusal is not None:
        assert ("is text in UTF-16" if name == "a.jsonl" else "the file was truncated") in refusal
        return
    width = {"a.raw": 72, "a.dirr": 104}.get(name)
    if width:
        assert len(rows) == len(data) // width
    else:
        lines = data.removeprefix(BOM_UTF8).split(b"\n")
        assert len(rows) == sum(bool(each.strip()) for each in lines)


@given(
    st.dictionaries(
        st.sampled_from(
            ["sweep", "time", "ordinal", "code", "record", "node", "completion", "code_page"]
        ),
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=9)
        | st.lists(st.integers(), max_size=2),
    )
)
def test_any_object_is_a_row(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    text_file(path, [line(**fields), json.dumps(fields)])
    assert len(read(path)) == 2


def test_times_are_utc_unless_they_say_otherwise(tmp_path: Path) -> None:
    moments = ["2026-05-04T08:00:00", "2026-05-04 08:00:00Z", "2026-05-04T11:00:00+03:00"]
    rows = read(text_file(tmp_path / "a.jsonl", [line(time=moment) for moment in moments]))
    assert {row["time"] for row in rows} == {to_micros(START)}


class TestInspectCommand:
    def test_every_call_is_a_line(self, tmp_path: Path) -> None:
        path = text_file(tmp_path / "a.jsonl", [line(), "nothing"])
        job = text_file(
            tmp_path / "job.toml", ["[table_queue]", 'code_page = "CP866"', 'owners = {5 = "HR"}']
        )
        done = CliRunner().invoke(
            cli, ["inspect", str(path), "--format", "table-queue", "-c", str(job)]
        )
        assert done.exit_code == 0, done.stderr
        first, second = map(json.loads, done.stdout.splitlines())
        assert first == {
            "file": str(path),
            "row": 1,
            "sweep": "1",
            "time": "2026-05-04T08:00:00+00:00",
            "node": "HR",
            "ordinal": 4,
            "completion": "NORMAL",
            "code": 0,
            "owner": 5,
            "schema": "HR",
            "table": "PERSON",
            "updated": 0,
        }
        assert (second["row"], second["problem"], second["raw"]) == (2, "json", "nothing")

    def test_a_file_without_samples_is_refused(self, tmp_path: Path) -> None:
        done = CliRunner().invoke(cli, ["inspect", str(tmp_path), "--format", "table-queue"])
        assert done.exit_code == 2
        assert "no samples in" in done.stderr

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from publisher.errors import FatalError, UsageError
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import FileRange, Split
from publisher.sources.files.options import ExpectedColumns, SnapshotOptions
from publisher.sources.files.parquet import BATCH_BYTES
from publisher.sources.files.parquet_pages import group_sizes

AB = ExpectedColumns(("a", "b"), optional=frozenset({"b"}))
OPTIONS = SnapshotOptions()


def rows(
    split: Split, options: SnapshotOptions = OPTIONS, columns: ExpectedColumns = AB
) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for frame in file_splits.frames(split, options, columns):
        values = (column.to_pylist() for column in frame.batch.columns)
        found += zip(frame.rows.tolist(), *values, strict=True)
        found += [(broken.row, broken.reason, broken.raw) for broken in frame.broken]
    return sorted(found, key=lambda row: int(str(row[0])))


def read(
    path: Path, wanted: int = 1, options: SnapshotOptions = OPTIONS
) -> list[tuple[object, ...]]:
    return [
        row
        for split in file_splits.splits([path], options, AB, wanted)
        for row in rows(split, options)
    ]


def test_a_directory_is_read_in_name_order_without_hidden_files(tmp_path: Path) -> None:
    for name in (
        "b.csv",
        "a.jsonl",
        "c.parquet",
        "_d.csv",
        ".e.csv",
        "f.md",
        "_tmp/g.csv",
        "sub/h.CSV.GZ",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert [str(path.relative_to(tmp_path)) for path in file_splits.files([tmp_path])] == [
        "a.jsonl",
        "b.csv",
        "c.parquet",
        "sub/h.CSV.GZ",
    ]


@pytest.mark.parametrize("name", ["missing.csv", "what.md", "empty"])
def test_files_that_cannot_be_a_snapshot_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "what.md").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError):
        file_splits.files([tmp_path / name])


def test_splits_are_stable_and_go_through_json(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 1000)
    options = SnapshotOptions(line_breaks=False, block_size=64)
    splits = file_splits.splits([path], options, AB, 4)
    assert len(splits) == 4
    assert splits == file_splits.splits([path], options, AB, 4)
    stored = json.loads(json.dumps([asdict(split) for split in splits]))
    assert TypeAdapter(list[Split[FileRange]]).validate_python(stored) == splits


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["1,x", "2,é", "3", "", "4,y,z"]), max_size=40),
    st.integers(1, 8),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_any_cut_gives_the_same_records_on_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], wanted: int, end: str, last: bool
) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.csv"
    path.write_bytes((end.join(["a,b", *lines]) + (end if last else "")).encode())
    options = SnapshotOptions(line_breaks=False, block_size=4)
    whole = [row[:2] for row in read(path, 1, SnapshotOptions())]
    assert [row[:2] for row in read(path, wanted, options)] == whole
    assert [row[0] for row in whole] == [i for i, line in enumerate(lines, 2) if line]


def test_json_lines_are_cut_at_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"a": i, "b": "x" * (i % 50)}) + "\n" for i in range(1000)))
    options = SnapshotOptions(block_size=1 << 10)
    assert len(file_splits.splits([path], options, AB, 5)) == 5
    assert [row[:2] for row in read(path, 5, options)] == [(i + 1, str(i)) for i in range(1000)]


def test_gzip_is_one_split_and_a_cut_one_ends_with_a_broken_record(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    packed = gzip.compress(b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i * i) for i in range(5000)))
    path.write_bytes(packed)
    assert len(read(path, 9)) == 5000
    path.write_bytes(packed[: len(packed) // 2])
    found = read(path)
    assert 100 < len(found) < 5000
    assert "the compressed file is cut here" in str(found[-1][1])
    assert [row[0] for row in found] == list(range(2, len(found) + 2))


@pytest.mark.parametrize("length", [1, 3, 7, 15])
@pytest.mark.parametrize("header", ["auto", "yes"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv.gz", b"record_id,table_key"), ("a.jsonl.gz", b'{"a":1,"b":2,"c":3}')],
)
def test_a_file_that_is_cut_in_its_first_record_is_reported_as_cut(
    name: str, text: bytes, length: int, header: Any, tmp_path: Path
) -> None:
    path, options, words = tmp_path / name, SnapshotOptions(header=header), "compressed file is cut"
    packer = zlib.compressobj(wbits=31)
    path.write_bytes(packer.compress(text[:length]) + packer.flush(zlib.Z_SYNC_FLUSH))
    with pytest.raises(FatalError, match=rf"{name}: .*{words} here; export it again"):
        file_splits.beginning(path, options)
    try:
        [(record, reason, _)] = read(path, 1, options)
    except FatalError as refused:  # the columns do not fit
        assert name == "a.csv.gz"
        reason = refused.message
    else:
        assert record == 1
    assert words in str(reason)


def test_other_encodings_are_read_and_wrong_bytes_reject_only_their_record(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\n1,ü\n2,€\n3,?\n".encode("cp1252").replace(b"?", b"\x81"))
    found = read(path, 1, SnapshotOptions(encoding="cp1252"))
    assert found[:2] == [(2, "1", "ü"), (3, "2", "€")]
    assert "not text" in str(found[2][1])
    path.write_bytes("a,b\n1,ü\n".encode("utf-16"))
    assert read(path, 3, SnapshotOptions(encoding="utf-16")) == [(2, "1", "ü")]


NO_WIDE_TEXT = (
    (
        "utf-16",
        b"a,b\n1,2\n",
        "utf-16 (UTF-16 stream does not start with BOM); set the right encoding",
    ),
    (
        "utf-16",
        "a,b\n1,2\n".encode("utf-16-le"),
        "or utf-16-le or utf-16-be if there is no byte",
    ),
    (
        "utf-32",
        "a,b\n1,2\n".encode("utf-32-le"),
        "set the right encoding, for example utf-8, or utf-32-le",
    ),
    ("utf-32", b"a,b\n1,2\n", "the text is not utf-32 (code point not in range(0x110000))"),
    ("utf-16", b"a", "the file ends inside a character of utf-16; export it again"),
)


@pytest.mark.parametrize("header", ["auto", "yes", "no"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.csv.gz"])
@pytest.mark.parametrize(("encoding", "text", "words"), NO_WIDE_TEXT)
def test_a_file_of_another_encoding_is_one_broken_record_and_has_no_columns(
    encoding: str, text: bytes, words: str, name: str, header: Any, tmp_path: Path
) -> None:
    path, options = tmp_path / name, SnapshotOptions(encoding=encoding, header=header)
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    [(record, reason, _)] = read(path, 3, options)
    assert record == 1
    assert words in str(reason)
    with pytest.raises(FatalError) as caught:
        file_splits.beginning(path, options)
    assert words in caught.value.message
    assert str(path) in caught.value.message
    if "csv" in name:
        with pytest.raises(FatalError, match=r"encoding|export"):
            file_splits.column_names(str(path), options)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("block_size", [64, 70, 1 << 20])
def test_an_invalid_character_does_not_affect_records_before_it(
    encoding: str, block_size: int, tmp_path: Path
) -> None:
    options = SnapshotOptions(encoding=encoding, header="yes", block_size=block_size)
    text = "a,b\n" + "".join(f"{i},x\n" for i in range(40)) + "40,"
    damage = {"utf-16": b"\x00\xd8\x41\x00", "utf-32": b"\x00\xd8\x00\x00"}[encoding]
    (tmp_path / "a.csv").write_bytes(text.encode(encoding) + damage + b"\n\0\0\0" * 9)
    *good, (record, reason, raw) = read(tmp_path / "a.csv", 1, options)
    assert good == [(i + 2, str(i), "x") for i in range(40)]
    assert (record, raw) == (42, "40,")
    assert f"the text is not {encoding}" in str(reason)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_header_that_is_cut_inside_a_character_is_reported(encoding: str, tmp_path: Path) -> None:
    options = SnapshotOptions(encoding=encoding, header="yes")
    (tmp_path / "a.csv").write_bytes("a,b\n".encode(encoding)[:-1])
    [(record, reason, raw)] = read(tmp_path / "a.csv", 1, options)
    assert (record, raw) == (1, "a,b")
    assert "ends inside a character" in str(reason)


def test_a_file_that_changed_since_the_splits_were_made_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1,2\n")
    split = file_splits.splits([path], OPTIONS, AB, 1)[0]
    path.write_bytes(b"a,b\n1,2\n3,4\n")
    with pytest.raises(FatalError, match="has changed"):
        list(file_splits.frames(split, OPTIONS, AB))


def test_columns_that_do_not_fit_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,c\n1,2\n")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "b.parquet")
    for name, words in (
        ("a.csv", "b is missing; the columns are a, c"),
        ("b.parquet", "a is missing; the columns are b"),
    ):
        with pytest.raises(FatalError, match=words):
            file_splits.splits([tmp_path / name], OPTIONS, AB, 1)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 10, b"a,b\n1,2\n"])
def test_a_file_that_is_not_parquet_is_refused_with_advice(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(FatalError, match="export it again"):
        file_splits.splits([tmp_path / "a.parquet"], OPTIONS, AB, 1)


def test_a_damaged_parquet_page_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": list(range(5000)), "b": [f"x{i}" for i in range(5000)]}), path)
    data = bytearray(path.read_bytes())
    data[100:400] = bytes(300)
    path.write_bytes(bytes(data))
    split = file_splits.splits([path], OPTIONS, AB, 1)[0]
    with pytest.raises(FatalError, match="export it again"):
        list(file_splits.frames(split, OPTIONS, AB))


def test_a_damaged_header_of_a_parquet_page_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": list(range(5000)), "b": [f"x{i}" for i in range(5000)]}), path)
    data = bytearray(path.read_bytes())
    data[4:40] = bytes(36)
    path.write_bytes(bytes(data))
    with pytest.raises(FatalError, match="export it again"):
        file_splits.splits([path], OPTIONS, AB, 1)


def test_a_parquet_page_that_claims_two_gibibytes_takes_none(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = pa.table({"a": ["x" * 100] * 50, "b": ["y"] * 50})
    pq.write_table(text, path, compression="none", use_dictionary=False)
    data = path.read_bytes()
    sizes = data[7 : data.index(b"\x15", 8)]
    assert data[4:7] + sizes + b"\x15" + sizes == data[4 : 8 + 2 * len(sizes)]  # its header
    huge = b"\x15" + b"\xfe\xff\xff\xff\x0f"  # i32 of the compact protocol: 2**31 - 1
    path.write_bytes(data[:6] + huge + huge + data[8 + 2 * len(sizes) :])
    taken = pa.total_allocated_bytes()
    with pytest.raises(FatalError, match="export it again"):
        read(path)
    assert pa.default_memory_pool().max_memory() - taken < 1 << 30


def test_a_parquet_file_with_fewer_rows_than_it_claims_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = pa.table({"a": ["x"], "b": ["y"]})
    pq.write_table(text, path, compression="none", use_dictionary=False)
    one_value = b"\x2c\x15\x02"  # number of values in the header of a data page: 1, zigzag
    data = path.read_bytes()
    assert data.count(one_value) == 2
    path.write_bytes(data.replace(one_value, b"\x2c\x15\x00"))
    with pytest.raises(
        FatalError, match=r"row group 1 has 0 rows and should have 1; export it again"
    ):
        read(path)


def test_sizes_of_some_row_groups_are_those_among_all(tmp_path: Path) -> None:
    path = str(tmp_path / "log.parquet")
    pq.write_table(pa.table({"a": range(40), "b": ["x" * n for n in range(40)]}), path, 10)
    sizes = group_sizes(path, {"a", "b"})
    assert [(number, group.rows) for number, group in sizes.items()] == [(n, 10) for n in range(4)]
    for groups in (range(1, 3), range(4), range(3, 4)):
        assert group_sizes(path, {"a", "b"}, groups) == {n: sizes[n] for n in groups}


def test_parquet_is_cut_by_row_groups_and_counts_rows_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"b": [str(i) for i in range(1000)], "a": range(1000)}), path, row_group_size=90
    )
    for wanted in (1, 3, 100):
        splits = file_splits.splits([path], OPTIONS, AB, wanted)
        assert len(splits) == min(wanted, 12)
        assert [row for split in splits for row in rows(split)] == [
            (i + 1, i, str(i)) for i in range(1000)
        ]


def test_parquet_batches_stay_small_when_values_are_large(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    big = ["x" * (1 << 20) + str(i) for i in range(40)]
    pq.write_table(pa.table({"a": range(40), "b": big}), path, use_dictionary=False)
    split = file_splits.splits([path], OPTIONS, AB, 1)[0]
    sizes = [frame.batch.nbytes for frame in file_splits.frames(split, OPTIONS, AB)]
    assert len(sizes) > 3
    assert max(sizes) < 2 * BATCH_BYTES


def test_an_empty_parquet_file_has_no_records(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}),
        tmp_path / "a.parquet",
    )
    assert read(tmp_path / "a.parquet") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"delimiter": '"'},
        {"delimiter": "é"},
        {"encoding": "no-such"},
        {"encoding": "hex"},
        {"encoding": "undefined"},
        {"encoding": "utf-8\0"},
    ],
)
def test_options_that_make_files_unreadable_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="write"):
        SnapshotOptions(**changes)  # type: ignore[arg-type]


def json_rows(tmp_path: Path, text: bytes) -> list[tuple[object, ...]]:
    (tmp_path / "a.jsonl").write_bytes(text)
    return read(tmp_path / "a.jsonl")


def test_json_numbers_stay_the_text_they_are_written_with(tmp_path: Path) -> None:
    text = b'{"a": 12345678901234567890, "b": 0.10}\n\n{"b": null, "A": true}\r\n{"a": "x"}'
    assert json_rows(tmp_path, text) == [
        (1, "12345678901234567890", "0.10"),
        (3, "true", None),
        (4, "x", None),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"b": 1}', "no a in the object"),
        (b'{"a": [1]}', "nested"),
        (b'{"a": {"b": 1}}', "nested"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": 1, "A": 2, "b": 3, "B": 4}', "twice"),
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": "\xff"}', "not text"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\x00", "not JSON"),
    ],
)
def test_a_line_that_is_not_a_record_is_broken_and_reading_continues(
    tmp_path: Path, line: bytes, words: str
) -> None:
    found = json_rows(tmp_path, line + b'\n{"a": 1}\n')
    assert [row[0] for row in found] == [1, 2]
    assert words in str(found[0][1])
    assert found[1] == (2, "1", None)


def test_a_json_line_beyond_max_record_is_one_broken_record(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * 5000 + b'"}\n{"a": 1}\n')
    found = read(path, 1, SnapshotOptions(block_size=64, max_record=500))
    assert [row[0] for row in found] == [1, 2]
    assert "max_record" in str(found[0][1])


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.csv.gz"])
def test_a_narrowed_split_begins_at_or_before_its_record(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "a.jsonl":
        path.write_text("".join(json.dumps({"a": i}) + "\n" for i in range(500)))
    elif name == "a.parquet":
        pq.write_table(pa.table({"a": range(500), "b": range(500)}), path, row_group_size=90)
    else:
        text = "a,b\n" + "".join(f'{i},"x\ny"\n' for i in range(500))
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    for split in file_splits.splits([path], OPTIONS, AB, 1):
        whole = rows(split)
        for row in (whole[0], whole[250], whole[-1]):
            narrow = file_splits.narrow(split, int(str(row[0])), OPTIONS)
            assert row in rows(narrow)
            if name in ("a.csv", "a.jsonl"):
                assert rows(narrow)[0] == row
        assert rows(file_splits.narrow(split, 100_000, OPTIONS)) == (
            [] if "gz" not in name else whole
        )

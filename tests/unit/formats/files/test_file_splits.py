from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.errors import FatalError, UsageError
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import Split
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from publisher.formats.files.parquet import BATCH_BYTES

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


def test_other_encodings_are_read_and_wrong_bytes_reject_only_their_record(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\n1,ü\n2,€\n3,?\n".encode("cp1252").replace(b"?", b"\x81"))
    found = read(path, 1, SnapshotOptions(encoding="cp1252"))
    assert found[:2] == [(2, "1", "ü"), (3, "2", "€")]
    assert "not text" in str(found[2][1])
    path.write_bytes("a,b\n1,ü\n".encode("utf-16"))
    assert read(path, 3, SnapshotOptions(encoding="utf-16")) == [(2, "1", "ü")]


NO_WIDE_TEXT = (
    ("utf-16", b"a,b\n1,2\n", "(UTF-16 stream does not start with BOM); set the right encoding"),
    ("utf-16", "a,b\n1,2\n".encode("utf-16-le"), "or utf-16-le or utf-16-be if there is no byte"),
    ("utf-32", "a,b\n1,2\n".encode("utf-32-le"), "for example utf-8, or utf-32-le"),
)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.csv.gz"])
@pytest.mark.parametrize(("encoding", "text", "words"), NO_WIDE_TEXT)
def test_wide_text_without_byte_order_mark_is_refused(
    encoding: str, text: bytes, words: str, name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    with pytest.raises(FatalError) as caught:
        read(path, 1, SnapshotOptions(encoding=encoding))
    assert words in caught.value.message
    assert str(path) in caught.value.message


@pytest.mark.parametrize("block_size", [64, 70, 1 << 20])
@pytest.mark.parametrize(
    ("encoding", "damage"),
    [
        ("utf-8", b"\xff"),
        ("cp1251", b"\x98"),
        ("euc-jp", b"\xa4"),
        ("utf-16-le", b"\x00\xdc"),
        ("utf-32-le", b"\x00\xd8\x00\x00"),
    ],
)
def test_bytes_that_are_no_text_reject_their_record_only(
    encoding: str, damage: bytes, block_size: int, tmp_path: Path
) -> None:
    lines = ["a,b\n", *(f"{i},x\n" for i in range(60))]
    data = [line.encode(encoding) for line in lines]
    data[41] = "40,".encode(encoding) + damage + "x\n".encode(encoding)
    (tmp_path / "a.csv").write_bytes(b"".join(data))
    found = read(tmp_path / "a.csv", 1, SnapshotOptions(encoding=encoding, block_size=block_size))
    assert [row[0] for row in found] == list(range(2, 62))
    assert [row[0] for row in found if "not text" in str(row[1])] == [42]


def test_a_file_that_ends_inside_a_character_rejects_its_last_record(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("a,b\n1,2\n3,4\n".encode("utf-16-le")[:-1])
    found = read(tmp_path / "a.csv", 1, SnapshotOptions(encoding="utf-16-le"))
    assert found[0] == (2, "1", "2")
    assert "not text" in str(found[1][1])


@pytest.mark.parametrize("packed", [1, 3])
def test_gzip_is_one_split_and_a_cut_one_is_refused(tmp_path: Path, packed: int) -> None:
    path = tmp_path / "a.csv.gz"
    rows = [b"%d,x%d\n" % (i, i * i) for i in range(6000)]
    step = len(rows) // packed
    members = [gzip.compress(b"".join(rows[n * step : (n + 1) * step])) for n in range(packed)]
    whole = gzip.compress(b"a,b\n") + b"".join(members)
    path.write_bytes(whole)
    assert len(read(path, 9)) == 6000
    for cut in (len(whole) // 2, len(whole) - 1, 5):
        path.write_bytes(whole[:cut])
        with pytest.raises(FatalError, match=r"a\.csv\.gz: the compressed file is cut; export"):
            file_splits.splits([path], OPTIONS, AB, 1)
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(FatalError, match=r"a\.csv\.gz: the compressed file is"):
        file_splits.splits([path], OPTIONS, AB, 1)


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


def test_a_damaged_header_of_a_parquet_page_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": list(range(5000)), "b": [f"x{i}" for i in range(5000)]}), path)
    data = bytearray(path.read_bytes())
    data[4:40] = bytes(36)
    path.write_bytes(bytes(data))
    with pytest.raises(FatalError, match="export it again"):
        read(path)


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

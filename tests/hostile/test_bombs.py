"""Small files that unpack to gigabytes: memory stays bounded, and what is not read is said."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.formats.files import file_splits
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from tests.support.event_log_files import csv_text
from tests.support.measured_reads import measure_read
from tests.support.repeated_values import MIB

HEAD = csv_text([]).encode()


def write_packed(path: Path, blocks: Iterable[bytes]) -> Path:
    """Writes a gzip file; a block that comes again is not compressed again."""
    packed: dict[bytes, bytes] = {}
    checksum = size = 0
    with path.open("wb") as file:
        file.write(b"\x1f\x8b\x08" + bytes(7))
        for block in blocks:
            if block not in packed:
                packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
                packed[block] = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
            file.write(packed[block])
            checksum, size = zlib.crc32(block, checksum), size + len(block)
        file.write(b"\x03\x00" + struct.pack("<2I", checksum, size))
    return path


WRITE = """
import sys
import pyarrow.parquet as pq
from tests.support.repeated_values import MIB, rows_of
pq.write_table(rows_of("a" * 300 * MIB, 1), sys.argv[1], compression="zstd", write_statistics=False)
"""


def large_page(folder: Path) -> Path:
    path = folder / "a.parquet"  # by another process: other tests ask how much memory this one took
    subprocess.run([sys.executable, "-c", WRITE, path], check=True)
    return path


def repeat_block(head: bytes, block: bytes, times: int, end: bytes = b"") -> Iterator[bytes]:
    yield head
    yield from repeat(block * (MIB // len(block)), times)
    yield end


BOMBS: dict[str, Callable[[Path], Path]] = {
    "a page of hundreds of megabytes": large_page,
    "a CSV record without end": lambda folder: write_packed(
        folder / "a.csv.gz", repeat_block(HEAD, b"a", 400)
    ),
    "a CSV record of delimiters": lambda folder: write_packed(
        folder / "a.csv.gz", repeat_block(HEAD, b",", 300)
    ),
    "a CSV header of delimiters": lambda folder: write_packed(
        folder / "a.csv.gz", repeat_block(b"record_id", b",", 40)
    ),
    "a JSON object of keys": lambda folder: write_packed(
        folder / "a.jsonl.gz", repeat_block(b"{", b'"a":1,', 60, b'"b":2}\n')
    ),
    "a JSON array": lambda folder: write_packed(
        folder / "a.jsonl.gz", repeat_block(b'{"a":[', b"1,", 60, b"1]}\n")
    ),
}
REASONS = ("unpack to", "fields where", "max_record", "more than")


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_takes_no_more_memory_than_its_records_may(tmp_path: Path, bomb: str) -> None:
    path = BOMBS[bomb](tmp_path)
    assert path.stat().st_size < MIB
    found = measure_read(path)
    assert found["peak"] < 900
    message = found.get("refused") or " ".join(found["details"])
    assert any(reason in message for reason in REASONS)
    if "framed" in found:
        assert found["framed"] == sum(found["outcomes"].values())


DOCUMENT = b'<nds dtdversion="2.0"><input>'
DOCUMENTS: dict[str, Iterable[bytes]] = {
    "a text": repeat_block(DOCUMENT, b"a", 300),
    "tags": repeat_block(DOCUMENT, b"<a/>", 60),
    "lines of tags": repeat_block(DOCUMENT, b"<delete x='1'/>\n", 100),
    "attributes": repeat_block(b"<nds ", b"a='' ", 100),
    "a comment": repeat_block(DOCUMENT + b"<!--", b"a", 300),
}


@pytest.mark.parametrize("bomb", DOCUMENTS)
def test_a_document_that_cannot_be_checked_is_a_finding_and_the_next_file_is_checked(
    tmp_path: Path, bomb: str
) -> None:
    path = write_packed(tmp_path / "a.xds.gz", DOCUMENTS[bomb])
    wrong = tmp_path / "b.xds"
    wrong.write_text("<nds/>\n")
    found = measure_read(path, wrong)
    assert found["peak"] < 900
    reasons = [reason for file, reason in found["findings"] if file == str(path)]
    assert len(reasons) == 1
    assert "not checked" in reasons[0]
    assert any(file == str(wrong) for file, _ in found["findings"])


def test_long_entries_of_a_dictionary_are_read_in_batches_of_bounded_size(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    values = [str(i) * 200_000 for i in range(100)] * 3  # 90 MB in all
    pq.write_table(pa.table({"a": values}), path, dictionary_pagesize_limit=1 << 30)
    options, columns = SnapshotOptions(), ExpectedColumns(("a",))
    found: list[str] = []
    for split in file_splits.splits([path], options, columns, 1):
        for frame in file_splits.frames(split, options, columns):
            assert frame.batch.nbytes < 17 * MIB
            assert not frame.broken
            found += frame.batch.column(0).to_pylist()
    assert found == values


def test_a_row_longer_than_max_record_is_rejected_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["x", "y" * 5_000, None, "z"]}), path)
    options, columns = SnapshotOptions(max_record=4_000), ExpectedColumns(("a",))
    (split,) = file_splits.splits([path], options, columns, 1)
    (frame,) = file_splits.frames(split, options, columns)
    assert frame.batch.column(0).to_pylist() == ["x", None, "z"]
    assert frame.rows.tolist() == [1, 3, 4]
    assert [broken.row for broken in frame.broken] == [2]
    assert "max_record" in frame.broken[0].reason


def test_a_long_entry_of_a_full_dictionary_is_not_unpacked_for_many_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    long, short = "x" * 20_000, [f"{n:040}" for n in range(50_000)]
    values = [text for each in short[:8_000] for text in (long, each)] + short[8_000:]
    pq.write_table(pa.table({"a": values}), path)
    options, columns = SnapshotOptions(), ExpectedColumns(("a",))
    (split,) = file_splits.splits([path], options, columns, 1)
    before, found = pa.total_allocated_bytes(), 0
    for frame in file_splits.frames(split, options, columns):
        assert frame.batch["a"].to_pylist() == values[found : found + frame.batch.num_rows]
        found += frame.batch.num_rows
        assert pa.total_allocated_bytes() - before < 50 * MIB
    assert found == len(values)

"""Files of pieces: pieces of several files are read in the order of the index."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from publisher.engine.contract import Packing
from publisher.engine.packed_files import divide_index, read_packed, write_packed

SCHEMA = pa.schema([("lane", pa.int32()), ("part", pa.string()), ("data", pa.binary())])
PACKING = Packing(SCHEMA, "lane", ("part",))
LANES = 4
Piece = tuple[int, str | None, bytes | None]
pieces = st.tuples(
    st.integers(0, 3), st.none() | st.text("ab", max_size=1), st.none() | st.binary(max_size=9)
)


def table(rows: list[Piece]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def place(piece: Piece) -> tuple[int, bool, str]:
    return piece[0], piece[1] is not None, piece[1] or ""


@given(st.lists(st.lists(pieces), max_size=4), st.integers(1, 5))
def test_pieces_are_read_in_order_with_their_data(
    files: list[list[Piece]], batch_rows: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts = [
            write_packed(table(rows).to_batches(batch_rows), PACKING, Path(folder, str(number)))
            for number, rows in enumerate(files)
        ]
        found = [
            tuple(row.values())
            for index in divide_index(parts, PACKING, LANES)
            for batch in read_packed(index, PACKING)
            for row in batch.to_pylist()
        ]
    expected = sorted((piece for rows in files for piece in rows), key=place)
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert [piece[:2] for piece in found] == [piece[:2] for piece in expected]


def test_large_pieces_are_read_one_after_the_other(tmp_path: Path) -> None:
    rows: list[Piece] = [(0, None, bytes([number]) * (3 << 20)) for number in range(4)]
    index = write_packed(table(rows).to_batches(), PACKING, tmp_path / "pieces")
    batches = list(read_packed(index, PACKING))
    assert max(batch.nbytes for batch in batches) < 7 << 20
    assert pa.Table.from_batches(batches) == table(rows)

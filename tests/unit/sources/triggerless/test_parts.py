"""Keys of whole columns match single keys; pieces and states are restored with any number of parts."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.errors import FatalError, UsageError
from publisher.model.catalogue import ColumnKind, Table
from publisher.model.keys import IdentifierCase, KeyPart, KeyProblem, canonical
from publisher.model.packed_batches import unpack_batch
from publisher.sources.triggerless.compare import ComparisonRules, compare, no_known_rows
from publisher.sources.triggerless.comparison import KnownFiles
from publisher.sources.triggerless.differences import TableRows
from publisher.sources.triggerless.hashing import text_hashes
from publisher.sources.triggerless.options import Keeps, TriggerlessOptions
from publisher.sources.triggerless.shuffle_pieces import (
    PieceKind,
    PiecePacker,
    bucket_of,
    each_piece,
    rows_of,
)
from publisher.sources.triggerless.state_files import read_known_rows, write_known_rows
from publisher.sources.triggerless.table_shape import TableShape, read_rows, shape_of
from tests.support.event_log_files import Tables

keys = st.none() | st.text('01-+.eE x"\\,=é\n', max_size=6) | st.integers().map(str)


def shape(*kinds: ColumnKind, case: IdentifierCase = IdentifierCase.AS_WRITTEN) -> TableShape:
    """A table whose key has columns of these kinds, with names in descending order."""
    names = tuple(f"k{9 - place}" for place in range(len(kinds)))
    columns = dict(zip(names, kinds, strict=True)) | {"v": ColumnKind.STRING}
    known = Table("s", "t", names, columns)
    found = [name.upper() for name in columns]
    return shape_of(
        "t", found, Tables({"t": known}), TriggerlessOptions(identifier_case=case), "here"
    )


@given(
    st.lists(st.tuples(keys, keys)),
    st.sampled_from([ColumnKind.STRING, ColumnKind.INT, ColumnKind.DECIMAL]),
    st.sampled_from([ColumnKind.STRING, ColumnKind.INT, ColumnKind.DECIMAL]),
)
def test_keys_are_those_of_the_plain_grammar(
    rows: list[tuple[str | None, str | None]], one: ColumnKind, other: ColumnKind
) -> None:
    table = shape(one, other)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([row[0] for row in rows], pa.string()),
            pa.array([row[1] for row in rows], pa.string()),
            pa.array(["x"] * len(rows), pa.string()),
        ],
        names=["K9", "K8", "V"],
    )
    read = read_rows(table, batch, None, "here")
    expected, faults = [], set()
    kinds = {"K9": str(one), "K8": str(other)}
    for number, (nine, eight) in enumerate(rows):
        try:
            if nine is None or eight is None:
                raise KeyProblem("NULL")
            parts = [KeyPart("K9", nine, quoted=True), KeyPart("K8", eight, quoted=True)]
            expected.append(canonical(parts, kinds))
        except KeyProblem:
            faults.add(number)
    assert read.keys.to_pylist() == expected
    assert set(read.faults) == faults
    assert read.hashes.tolist() == text_hashes(pa.array(expected, pa.string())).tolist()


def test_names_are_in_the_case_that_is_asked_for() -> None:
    table = shape(ColumnKind.INT, case=IdentifierCase.DATABASE)
    assert [part.name for part in table.key] == ["k9"]
    assert table.columns == ("v",)
    assert table.canonical("K9=007") == "k9=7"
    with pytest.raises(UsageError, match="the key of t is k9"):
        table.canonical("v=1")


@pytest.mark.parametrize(
    ("found", "words"),
    [(["v"], "key column k9 of t is missing"), (["k9", "v", "v"], "appears twice")],
)
def test_columns_that_do_not_fit_are_reported(found: list[str], words: str) -> None:
    known = Table("s", "t", ("k9",), {"k9": ColumnKind.INT, "v": ColumnKind.STRING})
    with pytest.raises(FatalError, match=words):
        shape_of("t", found, Tables({"t": known}), TriggerlessOptions(), "here")


@given(st.lists(st.integers(0, 2**64 - 1)), st.integers(0, 12))
def test_buckets_are_ranges_of_hashes(numbers: list[int], bits: int) -> None:
    hashes = np.sort(np.array(numbers, np.uint64))
    buckets = bucket_of(hashes, 1 << bits)
    assert buckets.tolist() == [int(h) * (1 << bits) >> 64 for h in hashes]
    assert (np.diff(buckets) >= 0).all()


rows = st.dictionaries(st.integers(0, 500).map(lambda n: f"k={n}"), st.none() | st.text(max_size=5))


def table_rows(image: dict[str, str | None]) -> TableRows:
    names = pa.array(list(image), pa.string())
    return TableRows(text_hashes(names), names, [pa.array(list(image.values()), pa.string())])


@given(rows, st.integers(0, 5))
def test_pieces_are_restored(image: dict[str, str | None], bits: int) -> None:
    built = table_rows(image)
    packer = PiecePacker(7, 1 << bits, PieceKind.NOW, 3, 2)
    batches = [*packer.add(built.hashes, built.keys, built.values), *packer.rest()]
    got: dict[str, str | None] = {}
    for batch in batches:
        for piece in each_piece([batch]):
            assert (piece.kind, piece.split, piece.member) == (PieceKind.NOW, 3, 2)
            back = rows_of([unpack_batch(piece.data)], 1)
            assert len(back) == piece.rows
            assert set(bucket_of(back.hashes, 1 << bits).tolist()) == {piece.partition - 7}
            got |= dict(zip(back.keys.to_pylist(), back.values[0].to_pylist(), strict=True))
    assert got == image


@given(rows, st.integers(0, 3), st.integers(0, 3), st.sampled_from(["columns", "values"]))
def test_a_state_may_be_read_in_other_parts(
    image: dict[str, str | None], written: int, read: int, keeps: Keeps
) -> None:
    whole = compare(["v"], table_rows(image), no_known_rows(keeps, 1), ComparisonRules(keeps)).known
    with TemporaryDirectory() as name:
        files = []
        for bucket in range(1 << written):
            part = table_rows(
                {k: v for k, v in image.items() if in_bucket(k, bucket, 1 << written)}
            )
            known = compare(["v"], part, no_known_rows(keeps, 1), ComparisonRules(keeps)).known
            write_known_rows(Path(name) / f"{bucket}", known, ["v"], keeps)
            files.append(f"{bucket}")
        kept = KnownFiles(name, tuple(files), ("v",))
        parts = [read_known_rows(kept, b, 1 << read, ["v"], keeps) for b in range(1 << read)]
    assert [h for part in parts for h in part.hashes.tolist()] == whole.hashes.tolist()
    assert [k for part in parts for k in part.keys.to_pylist()] == whole.keys.to_pylist()
    values = [v for part in parts for v in part.contents[0].tolist()]
    assert values == whole.contents[0].tolist()


def in_bucket(key: str, bucket: int, buckets: int) -> bool:
    return bool(bucket_of(text_hashes(pa.array([key])), buckets)[0] == bucket)

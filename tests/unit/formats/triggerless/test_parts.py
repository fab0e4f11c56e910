"""Keys of whole columns match single keys; pieces and states are restored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.errors import FatalError, UsageError
from publisher.formats.triggerless.decode import pack_parts, read_rows
from publisher.formats.triggerless.differences import TableRows
from publisher.formats.triggerless.hashing import bucket_of, text_hashes
from publisher.formats.triggerless.options import Keeps, TriggerlessOptions
from publisher.formats.triggerless.relate import KnownRows, contents_to_keep, no_known_rows
from publisher.formats.triggerless.state import known_batches, known_rows, write_known_rows
from publisher.formats.triggerless.table_shape import TableShape, shape_of
from publisher.model.catalogue import ColumnKind, Table
from publisher.model.keys import IdentifierCase, KeyPart, KeyProblem, canonical
from publisher.model.packed_batches import unpack_batch
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
    read, found = read_rows(table, batch, None, "here")
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
    assert set(found) == faults
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
def test_rows_are_packed_by_bucket(image: dict[str, str | None], bits: int) -> None:
    batch = table_rows(image).to_batch()
    parts, packed = pack_parts(batch, bucket_of(batch["hash"].to_numpy(), 1 << bits))
    assert len({*parts.tolist()}) == len(packed)
    got: dict[str, str | None] = {}
    for part, data in zip(parts.tolist(), packed, strict=True):
        back = TableRows.of_batches([unpack_batch(pa.py_buffer(data))], 1)
        assert set(bucket_of(back.hashes, 1 << bits).tolist()) == {part}
        got |= dict(zip(back.keys.to_pylist(), back.values[0].to_pylist(), strict=True))
    assert got == image


@pytest.mark.parametrize("keeps", ["columns", "values"])
def test_a_state_is_restored(tmp_path: Path, keeps: Keeps) -> None:
    kept = no_known_rows(keeps, 1).rows.values[0].type
    one, other = (dict[str, str | None]({name: name}) for name in ("k=1", "k=2"))
    contents = [contents_to_keep(table_rows(image).values, keeps)[0] for image in (one, other)]
    rows, published = (
        replace(table_rows(image), values=[column])
        for image, column in zip((one, other), contents, strict=True)
    )
    known = KnownRows(rows, published, np.array([True]), np.array([False]))
    write_known_rows(tmp_path / "1", known, ["v"], keeps)
    back = known_rows([*known_batches(tmp_path / "1", ["v", "new"], keeps)], 2, keeps)
    assert back.rows.keys.to_pylist() == ["k=1"]
    assert back.rows.values == [contents[0], pa.nulls(1, kept)]
    assert (back.published.keys.to_pylist(), back.published.values[0]) == (["k=2"], contents[1])
    assert (back.exists.tolist(), back.is_quiet.tolist()) == ([True], [False])

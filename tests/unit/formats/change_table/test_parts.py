"""Masks, sequences and pairs of change tables: the manual's tables, real vectors, and properties."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.errors import UsageError
from publisher.formats.change_table import change_seq
from publisher.formats.change_table.masks import (
    MaskProblem,
    MaskReading,
    bits_of,
)
from publisher.formats.change_table.pairs import relate_rows
from publisher.formats.change_table.rows import ChangeOperation, ChangeRows
from publisher.formats.files.options import SnapshotOptions
from publisher.model.change import Position
from tests.support.change_masks import mask_of
from tests.support.change_table_files import HEADERS, change_text, options, read, record, write
from tests.support.change_table_files import seq as seq_text
from tests.support.event_log_files import Row, csv_text


def bits(mask: str, order: str) -> list[int]:
    number = bits_of(mask, order)  # type: ignore[arg-type]
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


@pytest.mark.parametrize(
    ("octet", "numbers"),
    [(0, [7, 6, 5, 4, 3, 2, 1, 0]), (1, [15, 14, 13, 12, 11, 10, 9, 8])],
)
def test_the_table_of_the_manual(octet: int, numbers: list[int]) -> None:
    """Byte 0 holds bits 7 to 0, byte 1 holds bits 15 to 8; the highest bit of a byte is on the left."""
    for place, number in enumerate(numbers):
        mask = bytearray(2)
        mask[octet] = 0b1000_0000 >> place
        assert bits(mask.hex(), "lsb") == [number]


def test_five_header_columns_take_bits_0_to_4() -> None:
    """The first data column is bit 5 (manual, change_mask)."""
    assert MaskReading("lsb", 5).columns_of("20", 12) == 1
    with pytest.raises(MaskProblem, match="header columns"):
        MaskReading("lsb", 5).columns_of("10", 12)


REAL = [
    ("0800", [11]),
    ("2800", [11, 13]),
    ("010000", [16]),
    ("01A000", [13, 15, 16]),
    ("02" + "00" * 44, [353]),
    ("03" + "FF" * 43 + "80", list(range(7, 354))),
    ("", []),
]
MADE = [
    ("01FF80", "80FF01", list(range(7, 17))),
    ("010B00", "000B01", [8, 9, 11, 16]),
    ("8C00", "008C", [10, 11, 15]),
    ("80", "80", [7]),
    ("0180", "8001", [7, 8]),
    ("01FFE0", "E0FF01", list(range(5, 17))),
]


@pytest.mark.parametrize(("mask", "expected"), REAL)
def test_masks_of_a_real_export(mask: str, expected: list[int]) -> None:
    assert bits(mask, "msb") == expected


@pytest.mark.parametrize(("msb", "lsb", "expected"), MADE)
def test_masks_in_both_orders(msb: str, lsb: str, expected: list[int]) -> None:
    assert bits(msb, "msb") == bits(lsb, "lsb") == expected


@given(st.integers(0, (1 << 1024) - 1), st.sampled_from(["msb", "lsb"]), st.integers(0, 140))
def test_a_mask_is_read_back_whatever_zeros_it_keeps(number: int, order: str, width: int) -> None:
    assert bits_of(mask_of(number, order, width), order) == number  # type: ignore[arg-type]


@pytest.mark.parametrize("prefix", ["0x", "0X", "\\x", " "])
def test_marks_of_hex_are_no_part_of_a_mask(prefix: str) -> None:
    assert bits(prefix + "0800", "msb") == [11]


def test_a_lost_leading_zero_is_restored_only_if_the_order_allows() -> None:
    assert bits("800", "msb") == [11]
    with pytest.raises(MaskProblem, match="odd"):
        bits("800", "lsb")


GOOD_SEQ = st.tuples(
    st.datetimes().map(lambda at: int(f"{at:%m%d%H%M%S}00") + at.year * 10**12),
    st.integers(0, 10**19 - 1),
)


@given(st.lists(GOOD_SEQ, min_size=1))
def test_sequences_are_ordered_as_their_text(parts: list[tuple[int, int]]) -> None:
    written = [f"{time:016d}{number:019d}" for time, number in parts]
    high, low, right = change_seq.parse_column(pa.array(written))
    assert right.all()
    integers = list(zip(high.tolist(), low.tolist(), strict=True))
    assert [change_seq.text_of(*both) for both in integers] == written
    assert [change_seq.text_of(*both) for both in sorted(integers)] == sorted(written)
    for text, both in zip(written, integers, strict=True):
        assert len(text) == 35
        assert change_seq.parse_position(text) == Position("", *both, 0)
        assert change_seq.position_text(Position("", *both, 0)) == text


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "2024031810472600",
        "2024131810472600" + "0" * 19,
        "2024033210472600" + "0" * 19,
        "2024031824472600" + "0" * 19,
        "2024031810602600" + "0" * 19,
        "2024031810476100" + "0" * 19,
        "2.02403181047260e34",
        "2024031810472600" + "٠" * 19,
    ],
)
def test_texts_that_are_not_a_change_seq(text: str | None) -> None:
    assert not change_seq.parse_column(pa.array([text], pa.string()))[2].any()


def test_invalid_positions_are_refused() -> None:
    assert change_seq.parse_position("a.csv:7") == Position("a.csv", 7, 0, 0)
    with pytest.raises(UsageError, match="35 digits"):
        change_seq.parse_position("4711")


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 2)), max_size=40))
def test_pairs_are_the_same_as_one_by_one(rows: list[tuple[bool, int, int]]) -> None:
    """The i-th UPDATE of a sequence belongs to its i-th before image; a surplus of images has no partner."""
    before = np.array([row[0] for row in rows], bool)
    high, low = (np.array([row[i] for row in rows], np.int64) for i in (1, 2))
    groups: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for at, (is_before, h, l_) in enumerate(rows):
        groups.setdefault((h, l_), ([], []))[is_before].append(at)
    expected = [-1] * len(rows)
    doubles = []
    for updates, images in groups.values():
        if 0 < len(updates) < len(images):
            doubles.append(sorted([*updates, *images]))
            continue
        for update, image in zip(updates, images, strict=False):
            expected[update], expected[image] = image, update
    nothing, numbers = np.zeros(len(rows), np.int64), np.arange(len(rows))
    contents = pa.RecordBatch.from_pydict({"content": [str(number) for number in numbers]})
    kinds = np.where(before, ChangeOperation.BEFORE_IMAGE, ChangeOperation.UPDATE)
    table = ChangeRows(contents, nothing, nothing, numbers, kinds, high, low, high >= 0)
    related = relate_rows([table])
    assert related.partner.tolist() == expected
    assert sorted(sorted(group.tolist()) for group in related.doubles) == sorted(doubles)
    assert not len(related.copies)
    ends = [*related.operations.tolist(), *(row for group in doubles for row in group)]
    ends += [at for at in range(len(rows)) if before[at] and expected[at] >= 0]
    assert sorted(ends) == list(range(len(rows)))


def pairs(count: int) -> list[Row]:
    """Updates with before images, some of the key, beside inserts and deletes."""
    rows = [record(1, "I", range(10), idu="0")]
    for number in range(2, count):
        old, new = str(number), str(number + 1 if number % 5 == 0 else number)
        changed = [0, 1] if old != new else [1]
        rows.append(record(number, "B", idu=old, fname="old"))
        rows.append(record(number, "U", changed, idu=new, fname=f"new {number}"))
    return [*rows, record(count, "D", [0], idu="0")]


SMALL = SnapshotOptions(block_size=512)


@pytest.fixture(scope="module")
def pair_texts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """The changes of pairs whose partners are neighbours."""
    path = tmp_path_factory.mktemp("paired") / "all.csv"
    path.write_text(csv_text(pairs(24)))
    return [change_text(one) for one in read(path, options(), SMALL)]


@settings(max_examples=25, deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from([1, 3, 50]),
    st.booleans(),
)
def test_partners_are_found_anywhere_in_the_input(
    tmp_path_factory: pytest.TempPathFactory,
    pair_texts: list[tuple[object, ...]],
    chance: random.Random,
    wanted: int,
    two_files: bool,
) -> None:
    path = tmp_path_factory.mktemp("pairs")
    rows = pairs(24)
    chance.shuffle(rows)
    cut = len(rows) // 3 if two_files else len(rows)
    files = [path / f"{n}.csv" for n in range(2 if two_files else 1)]
    names = list(rows[0])
    files[0].write_text(csv_text(rows[:cut], names))
    if two_files:
        files[1].write_text(csv_text(rows[cut:], names))
    found = read(files, options(), SMALL, wanted)
    assert [change_text(one) for one in found] == pair_texts
    assert not any(one["outcome"] for one in found)


@pytest.mark.parametrize("long", ["U", "B"])
@pytest.mark.parametrize("name", ["usr__ct.parquet", "usr__ct.jsonl", "usr__ct.csv"])
@pytest.mark.parametrize("wanted", [1, 8])
def test_half_of_a_pair_that_is_too_long_leaves_the_other_half_alone(
    tmp_path: Path, name: str, wanted: int, long: str
) -> None:
    """The other half is in another part, and the headers do not show which record is too long."""
    rows = [
        record(9, "U", [1], idu="1", fname="x" * (1_500 if long == "U" else 1)),
        *pairs(8),
        record(9, "B", idu="1", fname="y" * (1_500 if long == "B" else 1)),
    ]
    path = write(tmp_path / name, rows)
    short = SnapshotOptions(max_record=1_000)
    found = read(path, options(mask_order="msb"), short, wanted)
    assert sum(int(str(row["records"])) for row in found) == len(rows)
    broken = [row for row in found if row["reason"] == "broken-record"]
    assert len(broken) == 1
    alone = [row for row in found if row["reason"] == "before-image-alone"]
    assert len(alone) == (long == "U")


def test_a_file_read_twice_gives_each_change_twice(tmp_path: Path) -> None:
    rows = [record(2, "B", idu="1"), record(2, "U", [1], idu="1", fname="x"), *pairs(4)[:1]]
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(csv_text(rows))
    found = read([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert [one["event_type"] for one in found] == [1, 1, 2, 2]
    assert [one["records"] for one in found] == [1, 1, 2, 2]


def test_headers_and_sequences_of_the_builder_are_the_documented_ones() -> None:
    assert len(seq_text(1)) == 35
    assert len(HEADERS) == 7


ANY_SEQ = st.tuples(
    st.one_of(GOOD_SEQ.map(lambda part: part[0]), st.just(2024031810472600)),
    st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(10**15, 10**15 + 1000)),
)


@given(st.lists(ANY_SEQ, min_size=1))
def test_ranks_keep_the_order_of_sequences(parts: list[tuple[int, int]]) -> None:
    high, low = (np.array(column, np.int64) for column in zip(*sorted(parts), strict=True))
    for ranking in (change_seq.Ranking(), change_seq.Ranking.of(int(low.min()), int(low.max()))):
        ranks = ranking.ranks(high, low)
        assert (np.diff(ranks) >= 0).all()
        assert (ranks >= 0).all()


def test_numbers_of_all_19_digits_have_their_order(tmp_path: Path) -> None:
    numbers = [0, 1, (1 << 63) - 1, 1 << 63, 10**19 - 1]
    rows = [record(number, "I", range(10), idu=str(number)) for number in reversed(numbers)]
    (tmp_path / "a.csv").write_text(csv_text(rows))
    found = sorted(read(tmp_path / "a.csv"), key=lambda one: (one["rank"], one["high"], one["low"]))
    assert [one["key"] for one in found] == [f"idu={number}" for number in numbers]
    texts = [change_seq.text_of(int(str(one["high"])), int(str(one["low"]))) for one in found]
    assert texts == [seq_text(number) for number in numbers]


def test_the_changes_of_one_moment_have_ranks_of_their_own() -> None:
    low = np.arange(10**18, 10**18 + 200_000)
    ranks = change_seq.Ranking.of(int(low[0]), int(low[-1])).ranks(
        np.full(len(low), 2024031810472600), low
    )
    assert (np.diff(ranks) == 1).all()

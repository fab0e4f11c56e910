"""Random damage in the middle of one record, and of two records in a row, of valid Linkexpress files.

No value may be published that was not in the file, and intact records are found.  Where both records of a
pair are damaged, the bytes of two cannot always be told from one: these few are counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from publisher.sources.linkexpress import LinkexpressOptions
from publisher.sources.linkexpress.options import ByteOrder, ExtractedTable
from tests.support.linkexpress_files import (
    GROUP,
    JNL,
    NULL,
    OPEN,
    little,
    mark,
    read,
    record,
    record_text,
)

FORMS = {
    "little": little(OPEN),
    "without flags": replace(little(OPEN), nulls=False),
    "full": replace(little(OPEN), extract="all"),
    "journal": JNL,
    "little journal": little(JNL),
    "group": GROUP,
    "little group": little(GROUP),
    "group without flags": replace(little(GROUP), nulls=False),
}
ORDERS: tuple[ByteOrder, ...] = ("big", "little")
TRIALS = 8
"""Of each form, order and number of damaged records."""
MOST_BYTES = 8


class NeighbourTrial(NamedTuple):
    wrong: list[str]
    """Records that were published and not in the file."""
    lost: Counter[str]
    """Intact records that were not found."""


def random_value(rng: random.Random, item: str) -> Any:
    kind = item.split(" ", 1)[1]
    if kind == "INTEGER":
        return rng.choice([rng.randrange(1, 100), rng.randrange(-(2**31), 2**31)])
    if kind == "SMALLINT":
        return rng.randrange(-100, 1000)
    if kind.startswith("DECIMAL"):
        return bytes.fromhex(f"{rng.randrange(100_000):05d}{rng.choice('CD')}")
    if kind.startswith("NCHAR"):
        return "".join(rng.choice("北京東都") for _ in range(4)).encode("cp932")
    if kind.startswith("VARCHAR"):
        data = bytes(rng.choice(b"abcxyz") for _ in range(rng.randrange(7)))
        return {"length": len(data), "data": data}
    return bytes(rng.choice(b"abcdefgh ABC") for _ in range(8))


def random_values(rng: random.Random, table: ExtractedTable, nulls: bool) -> list[Any]:
    values = [random_value(rng, item) for item in table.items]
    return [
        NULL if place and nulls and rng.random() < 0.15 else value
        for place, value in enumerate(values)
    ]


def random_parts(
    rng: random.Random, options: LinkexpressOptions, order: ByteOrder
) -> Iterator[bytes]:
    """The records of a file, of a group with commit records among them."""
    for _ in range(7):
        number = rng.randrange(len(options.tables))
        code = 0 if options.extract == "all" else rng.choice([1, 2, 3])
        values = random_values(rng, options.tables[number], options.nulls)
        yield record(options, number, code, values, order)
        if options.unit == "group" and rng.random() < 0.35:
            yield mark(options, order)
    if options.unit == "group":
        yield mark(options, order)


def damage(rng: random.Random, part: bytes) -> bytes:
    """A record with some bytes missing, or doubled."""
    at, size = rng.randrange(len(part)), rng.randrange(1, MOST_BYTES + 1)
    if rng.random() < 0.5:
        return part[:at] + part[at + size :]
    return part[: at + size] + part[at:]


def record_texts(options: LinkexpressOptions, data: bytes, folder: Path) -> list[str]:
    records, framed = read(options, data, folder)
    assert framed == len(records)
    return [record_text(each).removeprefix("held ") for each in records]


def run_trial(
    rng: random.Random, options: LinkexpressOptions, hits: int, folder: Path
) -> NeighbourTrial:
    order = rng.choice(ORDERS)
    options = replace(options, byte_order=order)
    parts = list(random_parts(rng, options, order))
    expected = record_texts(options, b"".join(parts), folder)
    first = rng.randrange(len(parts) - hits)  # the last record is intact
    hit = range(first, first + hits)
    damaged = [damage(rng, part) if n in hit else part for n, part in enumerate(parts)]
    found = record_texts(options, b"".join(damaged), folder)
    wrong = [one for one in found if one not in expected and not one.startswith("rejected")]
    intact = Counter(one for n, one in enumerate(expected) if n not in hit)
    return NeighbourTrial(wrong, intact - Counter(found))


def run_trials(hits: int, folder: Path) -> list[NeighbourTrial]:
    return [
        run_trial(random.Random(f"{name} {hits} {number}"), options, hits, folder)
        for name, options in FORMS.items()
        for number in range(2 * TRIALS)
    ]


def test_one_damaged_record_gives_hardly_a_wrong_value(tmp_path: Path) -> None:
    trials = run_trials(1, tmp_path)
    # one byte that was doubled: an intact record with a foreign byte behind it looks the same
    assert sum(len(trial.wrong) for trial in trials) <= 1
    # rejected with the record behind it, whose begin appears twice, or which is a rest of a commit record
    assert sum(trial.lost.total() for trial in trials) <= 2


def test_two_damaged_records_in_a_row_give_hardly_a_wrong_value(tmp_path: Path) -> None:
    trials = run_trials(2, tmp_path)
    # the header of the second is damaged, too: the first could be an intact record before it
    assert sum(len(trial.wrong) for trial in trials) <= 7
    assert sum(trial.lost.total() for trial in trials) == 0


BEIJING = "北京　　".encode("cp932")


@pytest.mark.parametrize(
    ("form", "number", "foreign"),
    [
        ("group", 0x26F, "efbbbf"),  # header and NULL areas have 000002 twice
        ("group", 0xEA, "31ffff00"),
        (
            "group without flags",
            0x1EB,
            "0000",
        ),  # the title has 8140 twice, but no text ends with NUL
    ],
)
def test_an_intact_record_before_foreign_bytes_is_found(
    form: str, number: int, foreign: str, tmp_path: Path
) -> None:
    options = FORMS[form]
    parts = [record(options, 1, 3, [number, BEIJING]), record(options, 1, 1, [7, BEIJING])]
    found = record_texts(options, bytes.fromhex(foreign).join(parts) + mark(options), tmp_path)
    assert found == [
        f"4 no={number}",
        "rejected broken-record",
        "1 no=7 title=北京\u3000\u3000",
        "ignored commit",
    ]


def test_a_record_whose_last_bytes_follow_again_is_found(tmp_path: Path) -> None:
    """Whether they were doubled or are the rest of another record, its values are the same."""
    one, other = (
        record(GROUP, 0, 3, [idu, NULL, b"\x99\x99\x9f", {"length": 6, "data": b"123456"}])
        for idu in (1, 2)
    )
    found = record_texts(GROUP, one + one[-4:] + other + mark(GROUP), tmp_path)
    assert found == ["4 idu=1", "rejected broken-record", "4 idu=2", "ignored commit"]


def test_a_long_length_of_an_illegal_header_hides_no_records(tmp_path: Path) -> None:
    """Although another record begins at its end, by chance."""
    parts = [record(GROUP, 1, 3, [number, BEIJING]) for number in range(1, 12)]
    parts[-2] += b"\xff" * 5  # so no record ends where the length does
    size = 12 + sum(map(len, parts[:-1]))
    header = size.to_bytes(4, "big") + bytes.fromhex("0100000000000a00")
    found = record_texts(GROUP, mark(GROUP) + header + b"".join(parts) + mark(GROUP), tmp_path)
    assert [text for text in found if text.startswith("4 ")] == [f"4 no={n}" for n in range(1, 12)]

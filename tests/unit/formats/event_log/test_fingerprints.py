"""Fingerprints of rows: equal for equal rows wherever they stand, different for any other row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from publisher.formats.event_log.fingerprints import fingerprints_of

ROWS: list[tuple[str | None, str | None, str | None]] = [
    ("1", "2026-01-05 08:00:00", "idu=1"),
    ("2", "2026-01-05 08:00:00", "idu=1"),
    ("1", "2026-01-05 08:00:01", "idu=1"),
    ("1", "2026-01-05 08:00:00", "idu=2"),
    ("12", "026-01-05 08:00:00", "idu=1"),
    ("1", "2026-01-05 08:00:00", ""),
    ("1", "2026-01-05 08:00:00", None),
    ("1", None, "idu=1"),
    ("1", "", ""),
    ("", "", ""),
    (None, None, None),
    ("1", "2026-01-05 08:00:00", "idu=Žofie"),
    ("1", "2026-01-05 08:00:00", "idu=1\0"),
    *(("1", "2026-01-05 08:00:00", "idu=" + "x" * length) for length in range(1, 300)),
    *(("1", "2026-01-05 08:00:00", "idu=" + "x" * length + "y") for length in range(1, 300)),
    ("1", "2026-01-05 08:00:00", "x" * 100_000),
    ("1", "2026-01-05 08:00:00", "x" * 99_999 + "y"),
]


def fingerprints(rows: list[tuple[str | None, str | None, str | None]]) -> list[int]:
    columns = [pa.array([row[place] for row in rows], pa.string()) for place in range(3)]
    return [int(number) for number in fingerprints_of(columns)]


def test_any_difference_gives_another_fingerprint() -> None:
    assert len(set(fingerprints(ROWS))) == len(ROWS)


@pytest.mark.parametrize("seed", range(3))
def test_a_fingerprint_does_not_depend_on_other_rows(seed: int) -> None:
    expected = fingerprints(ROWS)
    order = np.random.default_rng(seed).permutation(len(ROWS)).tolist()
    assert fingerprints([ROWS[row] for row in order]) == [expected[row] for row in order]
    assert [fingerprints([row])[0] for row in ROWS] == expected
    columns = [pa.array([row[place] for row in ROWS], pa.string()) for place in range(3)]
    part = fingerprints_of([column.slice(3, 50) for column in columns])
    assert part.tolist() == expected[3:53]


def test_rows_without_differences_in_their_ids_do_not_collide() -> None:
    rows: list[tuple[str | None, str | None, str | None]] = [
        (str(number), "2026-01-05 08:00:00", "idu=1") for number in range(200_000)
    ]
    assert len(set(fingerprints(rows))) == len(rows)


def test_no_rows_have_no_fingerprints() -> None:
    assert fingerprints([]) == []


def test_fingerprints_in_ledgers_stay_the_same() -> None:
    """If they must change, raise the format of the ledger: older runs could not be acknowledged."""
    assert fingerprints([ROWS[0], ROWS[-2]]) == [9188268959905330108, -1989267676606519839]

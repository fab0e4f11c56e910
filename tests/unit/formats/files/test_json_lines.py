"""Keys of JSON lines that are columns, and lines refused for their keys."""

from __future__ import annotations

import pytest

from publisher.formats.files.json_lines import LineProblem, column_keys, frames, parse_object
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from publisher.model.catalogue import LONGEST_NAME


@pytest.mark.parametrize(
    "line",
    [
        b'{"id\\ud800u": 1}',
        b'{"idu": {"\\udc00": 1}}',
        b'{"idu": [{"a": {"\\ud83d": null}}]}',
    ],
)
def test_half_a_surrogate_pair_is_no_key(line: bytes) -> None:
    with pytest.raises(LineProblem, match="a key holds half of a surrogate pair"):
        parse_object(line)
    assert column_keys(line + b'\n{"idu": 1}') == ("idu",)


def test_whole_pairs_are_keys() -> None:
    assert parse_object(b'{"\\ud83d\\ude00": ["\\u0041"]}') == (("\U0001f600", ["A"]),)


def test_a_second_spelling_in_one_line_is_not_a_column() -> None:
    lines = b'{"idu": 1, "fname": "a"}\n' * 3 + b'{"IDU": 1, "fname": "a", "photo": "x"}\n'
    assert column_keys(lines) == ("idu", "fname", "photo")


def test_a_second_spelling_in_two_lines_is_a_column() -> None:
    lines = b'{"idu": 1, "fname": "a"}\n' * 2 + b'{"IDU": 1}\n' * 2
    assert column_keys(lines) == ("idu", "fname", "IDU")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (
            b"f" + b"x" * LONGEST_NAME,
            "a key has 1,001 characters, but names have 1,000 at most; fix the program that writes it",
        ),
        (b"", "a key of the object is empty; fix the program that writes it"),
        (b" ", "a key of the object is empty; fix the program that writes it"),
    ],
)
def test_a_key_that_cannot_be_a_name_rejects_its_line_only(key: bytes, reason: str) -> None:
    good, bad = b'{"idu": 1}\n', b'{"idu": 2, "%s": "a"}\n' % key
    assert column_keys(bad + good * 2) == ("idu",)
    columns = ExpectedColumns(("idu",), closed=True)
    (frame,) = frames(iter([good + bad + good]), 1, columns, SnapshotOptions())
    assert frame.rows.tolist() == [1, 3]
    assert [(broken.row, broken.reason) for broken in frame.broken] == [(2, reason)]

"""The judge of the kill test sees each kind of fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.chaos.known_log import Found, judge_documents

COUNTS = Counter({1: 3, 2: 1})


def document(number: int, *values: int) -> bytes:
    attributes = "".join(
        f'<modify-attr attr-name="fname"><remove-value><value type="string">{value - 1}</value>'
        f'</remove-value><add-value><value type="string">{value}</value></add-value></modify-attr>'
        for value in values
    )
    key = f"idu={number},table=usr,schema=indirect"
    return f"<modify><association>{key}</association>{attributes}</modify>".encode()


RIGHT = [(0, document(1, 1)), (1, document(2, 1)), (0, document(1, 2, 3))]


def test_a_whole_log_is_right() -> None:
    found = judge_documents(RIGHT, COUNTS)
    assert found == Found(values=4)
    assert found.is_right


@pytest.mark.parametrize(
    ("documents", "fault"),
    [
        (RIGHT[:2], "lost"),
        ([], "lost"),
        ([*RIGHT, RIGHT[1]], "duplicated"),
        ([RIGHT[2], RIGHT[0], RIGHT[1]], "out_of_order"),
        ([*RIGHT, (0, document(1, 4))], "strange"),
        ([*RIGHT, (0, document(3, 1))], "strange"),
        ([*RIGHT[:2], (1, document(1, 2, 3))], "strange"),
        ([*RIGHT, (0, b"<modify/>")], "strange"),
    ],
)
def test_a_fault_is_seen(documents: Sequence[tuple[int, bytes]], fault: str) -> None:
    found = judge_documents(documents, COUNTS)
    assert getattr(found, fault)
    assert not found.is_right

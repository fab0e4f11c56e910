"""Operations of one object: planted differences are found exactly."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from publisher.reports.diff.compare_objects import (
    Aspect,
    ComparedDocument,
    ComparedOperation,
    DocumentPlace,
    compare_operations,
    differing_attributes,
    match_documents,
)

Planted = list[str]


def operation(number: int, **changes: Any) -> ComparedOperation:
    values = (("fname", b"%d" % number), ("lname", b"x"))
    place = DocumentPlace(0, number, 1)
    origin = (f"log:{number}", True, False)
    return ComparedOperation(*origin, "modify", "idu=1", values, place, 0)._replace(**changes)


CHANGES: dict[str, dict[str, Any]] = {
    "values": {"values": (("fname", b"other"), ("lname", b"x"))},
    "operation": {"kind": "add"},
    "key": {"association": "idu=2"},
    "order of attributes": {"values": (("lname", b"x"), ("fname", b"0"))},
}
PLANTED = st.lists(st.sampled_from(["same", "first", "second", *CHANGES]), max_size=30)


def planted(kinds: Planted) -> tuple[list[ComparedOperation], list[ComparedOperation]]:
    first, second = [], []
    for number, kind in enumerate(kinds):
        if kind != "second":
            values = (("fname", b"0"), ("lname", b"x"))
            first.append(operation(number, values=values))
        if kind != "first":
            values = (("fname", b"0"), ("lname", b"x"))
            second.append(operation(number, values=values)._replace(**CHANGES.get(kind, {})))
    return first, second


@given(PLANTED)
def test_planted_differences_are_found_exactly(kinds: Planted) -> None:
    first, second = planted(kinds)
    found = compare_operations(first, second)
    assert found.same == kinds.count("same")
    assert [(change.first.event_id, change.aspects) for change in found.changed] == [
        (f"log:{number}", (Aspect(kind),)) for number, kind in enumerate(kinds) if kind in CHANGES
    ]
    assert [each.event_id for each in found.only_first] == ids(kinds, "first")
    assert [each.event_id for each in found.only_second] == ids(kinds, "second")
    assert found.moved == 0


def ids(kinds: Planted, kind: str) -> list[str]:
    return [f"log:{number}" for number, each in enumerate(kinds) if each == kind]


@given(PLANTED)
def test_the_comparison_is_symmetric(kinds: Planted) -> None:
    first, second = planted(kinds)
    found, swapped = compare_operations(first, second), compare_operations(second, first)
    assert [change.aspects for change in found.changed] == [c.aspects for c in swapped.changed]
    assert (found.same, found.moved) == (swapped.same, swapped.moved)
    assert (found.only_first, found.only_second) == (swapped.only_second, swapped.only_first)


@given(st.permutations(range(6)))
def test_moved_operations_are_not_changed(order: list[int]) -> None:
    first = [operation(number) for number in range(6)]
    second = [operation(n, place=DocumentPlace(0, at, 1)) for at, n in enumerate(order)]
    found = compare_operations(first, second)
    assert (found.same, found.changed) == (6, [])
    assert (found.moved == 0) == (list(order) == list(range(6)))


def test_operations_without_ids_are_paired_by_content_first() -> None:
    first = [operation(number, is_known=False) for number in (1, 2, 3)]
    second = [operation(number, is_known=False) for number in (9, 3)]
    found = compare_operations(first, second)
    assert found.same == 1
    assert [(c.first.place.row, c.second.place.row) for c in found.changed] == [(1, 9)]
    assert [each.place.row for each in found.only_first] == [2]
    assert differing_attributes(*found.changed[0][:2]) == ("fname",)


def document(number: int, digest: bytes, row: int, operations: int = 1) -> ComparedDocument:
    return ComparedDocument(f"log:{number}", True, digest, operations, DocumentPlace(0, row, 1))


def test_equal_documents_need_no_reading() -> None:
    first = [document(1, b"a", 0), document(2, b"b", 1), document(3, b"c", 2)]
    second = [document(1, b"a", 0), document(2, b"x", 1), document(4, b"c", 2)]
    found = match_documents(first, second)
    assert found.same == [(first[0], second[0])]
    assert (found.rest_first, found.rest_second) == (first[1:], second[1:])
    assert (found.counts.same, found.counts.changed) == (1, 1)
    assert (found.counts.only_first, found.counts.only_second) == (1, 1)


def test_equal_documents_keep_their_place_in_the_order() -> None:
    one, other = document(1, b"a", 1, operations=3), document(1, b"a", 0, operations=3)
    late = operation(2, place=DocumentPlace(0, 1, 1))
    found = compare_operations([operation(2, place=DocumentPlace(0, 0, 1))], [late], [(one, other)])
    assert (found.same, found.moved) == (4, 1)

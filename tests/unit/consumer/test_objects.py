"""The state that operations lead to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.consumer import (
    Add,
    AddValue,
    Delete,
    Delivery,
    Modify,
    ModifyAssociation,
    Objects,
    Operation,
    Origin,
    RemoveAllValues,
    RemoveValue,
    StateError,
    Value,
    ValueType,
)
from publisher.consumer.operations import AttributeChange

X, Y, Z = Value("x"), Value("y"), Value("z")


def texts(objects: Objects, key: str = "k", attribute: str = "a") -> list[str]:
    return [value.text for value in objects[key].values(attribute)]


def test_values_are_changed_in_order() -> None:
    objects = Objects()
    objects.apply(Add("k", "c", (AddValue("a", X), AddValue("a", Y), AddValue("b", X))))
    changes = RemoveValue("a", X), AddValue("a", Z), AddValue("a", X), RemoveAllValues("b")
    objects.apply(Modify("k", "c", changes))
    assert texts(objects) == ["y", "z", "x"]
    assert objects["k"].class_name == "c"
    assert list(objects["k"].attributes) == ["a"]
    assert objects["k"].text("a") == "y"
    assert objects["k"].text("b") is None


def test_present_and_absent_values_are_ignored() -> None:
    objects = Objects()
    objects.apply(Modify("k", "c", (AddValue("a", X), AddValue("a", Y), AddValue("a", X))))
    objects.apply(Modify("k", "c", (RemoveValue("a", Z), RemoveValue("b", Z))))
    assert texts(objects) == ["x", "y"]
    objects.apply(Delete("other"))
    objects.apply(ModifyAssociation("other", "k"))
    assert list(objects) == ["k"]


def test_an_object_is_deleted_renamed_and_created_again() -> None:
    objects = Objects()
    objects.apply(Add("k", "c", (AddValue("a", X),)))
    objects.apply(ModifyAssociation("k", "l"))
    assert list(objects) == ["l"]
    assert texts(objects, "l") == ["x"]
    objects.apply(Add("k", "c", (AddValue("a", Y),)))
    objects.apply(Delete("l"))
    objects.apply(Add("l", "c"))
    assert {key: dict(objects[key].attributes) for key in objects} == {"k": {"a": (Y,)}, "l": {}}


def test_a_reference_leads_to_its_object() -> None:
    manager = Value("", ValueType.DN, "m")
    objects = Objects()
    objects.apply(Add("k", "c", (AddValue("manager", manager),)))
    assert objects.target(manager) is None
    objects.apply(Add("m", "c", (AddValue("a", X),)))
    assert objects.target(manager) == objects["m"]
    assert objects.target(X) is None


def test_a_known_object_does_not_change() -> None:
    objects = Objects()
    objects.apply(Add("k", "c", (AddValue("a", X),)))
    known = objects["k"]
    objects.apply(Modify("k", "c", (RemoveAllValues("a"),)))
    assert known.values("a") == (X,)


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (Add("k", "c"), "exists"),
        (Modify("l", "c"), "does not exist"),
        (Delete("l"), "does not exist"),
        (ModifyAssociation("l", "m"), "does not exist"),
        (ModifyAssociation("k", "k2"), "has its new key already"),
        (Modify("k", "c", (AddValue("a", X),)), "is present"),
        (Modify("k", "c", (RemoveValue("a", Y),)), "is absent"),
    ],
)
def test_a_strict_state_refuses_contradictions(operation: Operation, problem: str) -> None:
    objects = Objects(strict=True)
    objects.apply(Add("k", "c", (AddValue("a", X),)))
    objects.apply(Add("k2", "c"))
    delivery = Delivery((operation,), Origin("xds/0", 5))
    with pytest.raises(StateError, match=rf"^xds/0:5: .* because it {problem}: "):
        objects.apply_all([delivery])


ATTRIBUTES, VALUES = st.sampled_from("ab"), st.sampled_from([X, Y, Z])
CHANGES = st.one_of(
    st.builds(AddValue, ATTRIBUTES, VALUES),
    st.builds(RemoveValue, ATTRIBUTES, VALUES),
    st.builds(RemoveAllValues, ATTRIBUTES),
)


@given(st.lists(CHANGES, max_size=20))
def test_attributes_are_ordered_sets(changes: list[AttributeChange]) -> None:
    expected: dict[str, list[Value]] = {"a": [], "b": []}
    for change in changes:
        values = expected[change.attribute]
        if isinstance(change, RemoveAllValues):
            values.clear()
        elif isinstance(change, AddValue):
            if change.value not in values:
                values.append(change.value)
        elif change.value in values:
            values.remove(change.value)
    objects = Objects()
    objects.apply(Modify("k", "c", tuple(changes)))
    assert {name: list(objects["k"].values(name)) for name in "ab"} == expected

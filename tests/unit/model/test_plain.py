"""Objects come back from the plain values that JSON keeps of them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import pytest
from annotated_types import Len

from publisher.model.plain import fields_of, restore, to_lines


class Colour(StrEnum):
    RED = "red"


class Pair(NamedTuple):
    name: str
    colour: Colour | None


@dataclass(frozen=True, slots=True)
class Inner:
    path: Path | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    number: int
    letter: Literal["a", "b"] | None
    colour: Colour
    inner: Inner
    several: tuple[Inner, ...]
    fixed: tuple[str, int, Colour]
    listed: Annotated[tuple[Annotated[str, Len(1)], ...], Len(1)]
    names: Mapping[int, str]
    keys: Mapping[str, tuple[str, ...]]
    free: dict[str, object] = field(default_factory=dict)
    limit: int | Literal["unlimited"] | None = None
    pair: Pair | None = None


FULL = Outer(
    number=1,
    letter="a",
    colour=Colour.RED,
    inner=Inner(Path("a/b"), ("x", "y")),
    several=(Inner(), Inner(None, ("z",))),
    fixed=("a", 2, Colour.RED),
    listed=("one",),
    names={5: "HR"},
    keys={"usr": ("idu", "role")},
    free={"a": [1, {"b": None}]},
    limit="unlimited",
    pair=Pair("p", None),
)


def stored(value: object) -> dict[str, object]:
    plain: dict[str, object] = json.loads(json.dumps(asdict(value), default=str))  # type: ignore[call-overload]
    return plain


def test_every_field_has_its_type_again() -> None:
    again = restore(Outer, stored(FULL))
    assert again == FULL
    assert type(again.colour) is Colour
    assert type(again.fixed[2]) is Colour
    assert isinstance(again.inner.path, Path)
    assert type(again.pair) is Pair


def test_missing_values_take_their_defaults() -> None:
    assert restore(Inner, {}) == Inner()


@pytest.mark.parametrize(
    "damage",
    [
        {"number": 1},
        {**stored(FULL), "unknown": 1},
        {**stored(FULL), "colour": "green"},
        {**stored(FULL), "several": 5},
        {**stored(FULL), "inner": []},
    ],
    ids=["missing", "unknown", "enum", "no list", "no table"],
)
def test_values_that_do_not_fit_are_errors(damage: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError, KeyError, AttributeError)):
        restore(Outer, damage)


def test_complete_values_have_every_field() -> None:
    assert restore(Inner, {"path": None, "names": []}, complete=True) == Inner()
    with pytest.raises(KeyError, match="names"):
        restore(Inner, {"path": None}, complete=True)


def test_lines_hold_what_asdict_gives_and_restore_reads() -> None:
    value = replace(FULL, inner=Inner(None, ("x", "y")))
    lines = json.loads(to_lines(fields_of(value)))
    assert lines == stored(value)
    assert restore(Outer, lines) == value


def test_each_value_has_a_line() -> None:
    assert to_lines({"name": "Žofie", "pairs": {"a": [1, 2]}}) == (
        '{\n "name": "Žofie",\n "pairs": {"a": [1, 2]}\n}\n'
    )


def test_other_values_have_no_lines() -> None:
    with pytest.raises(TypeError, match="bytes"):
        to_lines({"value": b""})

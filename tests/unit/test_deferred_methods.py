"""Methods of dataclasses that are compiled when they are called first."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass, replace
from functools import partial
from typing import Any

import pytest

from publisher.deferred_methods import defer_dataclass_methods

HAS_COMPILER = "_create_fn" in vars(dataclasses)
"""True before Python 3.13."""


def define() -> tuple[Any, Any]:
    """A class and its subclass."""

    @dataclass(frozen=True, slots=True)
    class Key:
        """Two fields and a default."""

        name: str
        values: tuple[object, ...] = ()

    @dataclass(frozen=True, slots=True)
    class LongKey(Key):
        """A further field."""

        number: int = 0

    return Key, LongKey


@pytest.fixture
def deferred(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Classes whose methods are deferred."""
    monkeypatch.setitem(vars(dataclasses), "_create_fn", original())
    defer_dataclass_methods()
    return define()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Classes as Python itself makes them."""
    monkeypatch.setitem(vars(dataclasses), "_create_fn", original())
    return define()


def original() -> Callable[..., Any] | None:
    compiler = vars(dataclasses).get("_create_fn")
    return compiler.func if isinstance(compiler, partial) else compiler


def assign(value: Any) -> None:
    value.name = "c"


def delete(value: Any) -> None:
    del value.name


USES: dict[str, Callable[[Any, Any], Any]] = {
    "equal": lambda key, _: key("a", (1,)) == key("a", (1,)),
    "different": lambda key, _: key("a", (1,)) == key("a", (2,)),
    "of another class": lambda key, long: (key("a") == long("a"), key("a") == 1),
    "equal in a subclass": lambda _, long: (
        long("a", (), 1) == long("a", (), 1),
        long("a") != long("b"),
    ),
    "hash": lambda key, long: (
        hash(key("a", (1,))),
        hash(long("a", (), 7)),
        {key("a"): 1}[key("a")],
    ),
    "no hash": lambda key, _: hash(key("a", ([],))),
    "text": lambda key, long: (repr(key("a", (1,))), repr(long("a"))),
    "assign": lambda key, _: assign(key("a")),
    "assign in a subclass": lambda _, long: assign(long("a")),
    "delete": lambda key, _: delete(key("a")),
    "replace": lambda _, long: repr(replace(long("a"), number=3)),
    "names": lambda key, _: [getattr(key, each).__qualname__ for each in ("__eq__", "__repr__")],
}


@pytest.mark.parametrize("use", USES)
def test_methods_behave_as_those_of_python(
    use: str, eager: tuple[Any, Any], deferred: tuple[Any, Any]
) -> None:
    for _ in range(2):  # compiles, then calls the compiled method
        assert outcome(use, deferred) == outcome(use, eager)


def outcome(use: str, classes: tuple[Any, Any]) -> object:
    try:
        return USES[use](*classes)
    except (TypeError, FrozenInstanceError) as error:
        return type(error), str(error)


@pytest.mark.skipif(not HAS_COMPILER, reason="this Python compiles all methods of a class together")
def test_a_class_has_the_compiled_method_after_the_first_call(deferred: tuple[Any, Any]) -> None:
    key, long = deferred
    before = vars(key)["__eq__"]
    assert key("a") == key("a")
    assert vars(key)["__eq__"] is not before
    assert vars(key)["__eq__"].__code__.co_varnames == ("self", "other")
    assert vars(long)["__eq__"].__code__.co_varnames != ("self", "other")


def test_threads_may_call_a_method_first_together(deferred: tuple[Any, Any]) -> None:
    key, _ = deferred
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: hash(key("a")), range(100))) == {hash(("a", ()))}


def test_commands_defer_the_methods_of_their_own_classes() -> None:
    program = (
        "import pickle, publisher.cli.main; from publisher.errors import SettingProblem as P;"
        "value = P(('a',), 'b'); assert pickle.loads(pickle.dumps(value)) == value;"
        "assert value != P(('a',), 'c'); print(hash(value) == hash(P(('a',), 'b')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"True\n"

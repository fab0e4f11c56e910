"""Defers the code that dataclasses generate: a short command uses few methods of its classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

_COMPILER = "_create_fn"
"""A function of ``dataclasses`` in CPython before 3.13, which compiles one method."""
_DEFERRED = frozenset({"__delattr__", "__eq__", "__hash__", "__repr__", "__setattr__"})


def defer_dataclass_methods() -> None:
    """Lets dataclasses compile each method but ``__init__`` when it is called first.

    A frozen class has six methods that CPython before 3.13 compiles one by one, 0.08 s for the 200 classes
    of a short command.  Later versions compile them together; nothing changes there.  Only programs may
    call this function, because it affects all classes that the process defines afterwards.
    """
    compiler = vars(dataclasses).get(_COMPILER)
    if compiler is not None and not isinstance(compiler, partial):
        vars(dataclasses)[_COMPILER] = partial(_defer, compiler)


def _defer(compiler: Callable[..., Any], name: str, *args: Any, **options: Any) -> Any:
    """Returns a method that replaces itself by the compiled one in the class that has it."""
    if name not in _DEFERRED:
        return compiler(name, *args, **options)
    compiled: Any = None

    def method(self: object, *values: object) -> Any:
        nonlocal compiled
        if compiled is None:
            compiled = compiler(name, *args, **options)
            compiled.__qualname__ = method.__qualname__
            for owner in type(self).__mro__:
                if vars(owner).get(name) is method:
                    setattr(owner, name, compiled)
        return compiled(self, *values)

    method.__name__ = name
    return method

"""Starts pyarrow as commands and tasks need it: without pandas, and with an allocator that returns memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from threading import RLock
from types import ModuleType
from typing import Any

_DEFERRED = ("pyarrow", "pyarrow.compute", "pyarrow.parquet")
"""Modules whose imports take 0.1, 0.05 and 0.02 s."""
_LOCK = RLock()


class _PandasHider:
    """An import hook that hides the module pandas."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises ``ModuleNotFoundError`` for pandas; leaves other modules to other finders."""
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)
        return None


class _DeferredModule(ModuleType):
    """Replaces a module until one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
                start_arrow()
            module = import_module(self.__name__)
        vars(self).update(vars(module))
        return getattr(module, name)


def defer_arrow() -> None:
    """Defers the import of pyarrow, and of its large parts, until they are used; see
    ``start_arrow``.

    A command that finds nothing to do then never imports them.
    """
    for name in _DEFERRED:
        if name not in sys.modules:
            sys.modules[name] = _DeferredModule(name)
        package, _, part = name.rpartition(".")
        if package:
            setattr(sys.modules[package], part, sys.modules[name])


def start_arrow() -> None:
    """Imports pyarrow while pandas cannot be imported, and with the allocator jemalloc.

    pyarrow imports pandas when it first converts Python values, and remembers whether pandas exists.
    Afterwards this process cannot convert between Arrow and pandas.

    In workers with long logs the default, mimalloc, kept 110 MB of freed memory, and the allocator of the C
    library 50 MB; neither was faster (measured).
    The environment variable ``ARROW_DEFAULT_MEMORY_POOL`` overrides the choice.

    Only commands and the worker processes of both engines may call this function: they own their process.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")  # pyarrow looks at it once
    if "pandas" in sys.modules:
        return
    hider = _PandasHider()
    sys.meta_path.insert(0, hider)
    try:
        import pyarrow as pa  # noqa: PLC0415 - only while pandas is hidden

        pa.array([0])
    finally:
        sys.meta_path.remove(hider)

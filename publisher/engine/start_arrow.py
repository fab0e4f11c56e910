"""Starts pyarrow without pandas, whose import takes more than half a second."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


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


def start_arrow() -> None:
    """Imports pyarrow while pandas cannot be imported.

    pyarrow imports pandas when it first converts Python values, and remembers whether pandas exists.
    Afterwards this process cannot convert between Arrow and pandas.

    Only commands and the worker processes of the local engine may call this function: they own their process.
    """
    if "pandas" in sys.modules:
        return
    hider = _PandasHider()
    sys.meta_path.insert(0, hider)
    try:
        import pyarrow as pa  # noqa: PLC0415 - only while pandas is hidden

        pa.array([0])
    finally:
        sys.meta_path.remove(hider)

"""Hides pandas from pyarrow, which imports it where it can: that takes more than half a second.

Only commands, and worker processes of the local engine, may do so: they own their process.
"""

from __future__ import annotations

import sys


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Raises ``ModuleNotFoundError`` for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def hide_pandas() -> None:
    """Lets imports of pandas fail in this process."""
    sys.meta_path.insert(0, _NoPandas())


def show_pandas() -> None:
    """Lets pandas be imported again: PySpark needs it.  pyarrow remembers that it was missing."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _NoPandas)]

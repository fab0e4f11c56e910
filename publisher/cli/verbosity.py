"""The amount of messages on standard error that the command line asks for: ``-v``, ``-q`` or neither."""

from __future__ import annotations

from enum import Enum

import click


class Verbosity(Enum):
    """Amount of messages on standard error."""

    QUIET = "-q"
    """Errors only."""
    NORMAL = ""
    """Notes, and progress on a terminal."""
    VERBOSE = "-v"
    """Also each phase with its time, and warnings of libraries."""


KEY = __name__
"""Key in ``Context.meta``, which a command shares with the group."""


def verbosity() -> Verbosity:
    """Returns how much the running command shall print on standard error."""
    context = click.get_current_context(silent=True)
    chosen = Verbosity.NORMAL if context is None else context.meta.get(KEY)
    return chosen or Verbosity.NORMAL

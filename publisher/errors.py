"""Errors, grouped by what the operator can do about them.

::

    PublisherError            exit code 1
    ├── UsageError            2   the command line
    ├── SettingsError         2   the job file: carries every problem found, not the first
    ├── FindingsError         3   check or validate found something
    ├── BudgetError           4   the run is complete, but rejected more records than allowed
    ├── UnreachableError      5   source, database or sink cannot be reached: try again later
    ├── FatalError            1   this run cannot go on; the message says what to mend
    └── InternalError         1   a promise of the program itself does not hold (conservation)

A record that cannot be used is data (``Outcome.REJECTED``), not an exception.  Messages name the
position and end with what to do.  All of them can be pickled: they cross process borders.
"""

from __future__ import annotations

import errno

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Numbers of system errors that say that a disk is full."""

_ADVICE = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EACCES: "give this user the right to it",
    errno.EPERM: "give this user the right to it",
    errno.EROFS: "name a path on a file system that can be written",
}


class PublisherError(Exception):
    """Root of all errors that the program raises on purpose."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(PublisherError):
    """The command line asks for something that cannot be."""

    exit_code = 2


class SettingsError(PublisherError):
    """The job file is wrong; ``problems`` has one line for each thing to mend."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems

    def __reduce__(self) -> tuple[type[SettingsError], tuple[list[str]]]:
        return type(self), (self.problems,)


class FindingsError(PublisherError):
    """A check or a validation has findings, which were printed."""

    exit_code = 3


class BudgetError(PublisherError):
    """All records have their outcome, but more were rejected than the budget allows."""

    exit_code = 4


class UnreachableError(PublisherError):
    """A source, a database or a sink does not answer; the same command may succeed later."""

    exit_code = 5


class FatalError(PublisherError):
    """The run cannot go on until the operator has mended what the message says."""


class TableRefusedError(FatalError):
    """One table cannot be described: its user may not see it, or it is no longer valid.

    Records that speak of the table are rejected; the run goes on."""


class InternalError(PublisherError):
    """The program broke a promise of its own; nothing of the run was committed."""


def of_system(error: OSError) -> FatalError:
    """What the system refused, in one line."""
    # a copy names its source first, its target second
    path = error.filename2 or error.filename
    if error.errno in NO_SPACE:
        where = path or "the disk of the output, of the journal or of Spark's temporary files"
        return FatalError(f"no space left on {where}: free space and start again")
    about = f"{path}: " if path else ""
    advice = _ADVICE.get(error.errno or 0, "fix it")
    return FatalError(f"{about}{error.strerror or error}: {advice}, then start the command again")

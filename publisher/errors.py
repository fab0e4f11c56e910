"""Errors, grouped by what the operator can do about them.

::

    PublisherError            exit code 1
    ├── UsageError            2   the command line
    ├── SettingsError         2   the job file: carries all of its problems, not only the first
    ├── FindingsError         3   check or validate found something
    ├── BudgetError           4   the run is complete, but rejected more records than allowed
    ├── UnreachableError      5   source, database or sink cannot be reached: try again later
    ├── FatalError            1   this run cannot continue; the message says what to fix
    │   ├── ReplacedError     6   a newer instance of the job works: leave the job to it
    │   ├── RunningError      7   publish --follow runs, and the command would stop it
    │   └── FileRefusedError  1   a file does not fit as a whole: publish leaves it out
    └── InternalError         1   the program broke one of its own guarantees (conservation)

A record that cannot be used is data (``Outcome.REJECTED``), not an exception.  Messages name the
position and end with advice.  All errors can be pickled: they cross process borders.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Numbers of the system errors of a full disk."""

_ADVICE = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EACCES: "give this user permission for it",
    errno.EPERM: "give this user permission for it",
    errno.EROFS: "name a path on a writable file system",
}


SettingKey = tuple[str | int, ...]
"""Path of a setting in a job file, with places in arrays: ``("sources", 0, "delimiter")``."""


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """A problem of one setting, with its location."""

    key: SettingKey
    """Empty for a problem that does not belong to a single setting."""
    text: str
    line: int = 0
    """Line of the job file; 0 if it is not known."""
    names: tuple[tuple[int, str], ...] = ()
    """Names of array entries, by their place in ``key``."""
    option: str | None = None
    """Command-line option that gave the value instead of the job file."""

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line else ""
        return f"{self._location()}{self.text}{line}"

    def _location(self) -> str:
        """``[documents] batch_size: ``, ``[[sources]] 2 tables 3 (usr) items: ``, ``--lanes: ``."""
        if self.option is not None:
            return f"{self.option}: "
        if not self.key:
            return ""
        section, *rest = self.key
        header, start = f"[{section}]", 1
        if rest and isinstance(rest[0], int):
            header, start = f"[[{section}]]" + (f" {rest[0] + 1}" if rest[0] else ""), 2
        elif rest and section == "tables":
            header, start = f"[tables.{rest[0]}]", 2
        elif rest[:1] == ["kafka"]:
            header, start = "[dispatch.kafka]", 2
        elif (section, rest[:1]) == ("spark", ["conf"]):
            start = 2
        return f"{header} {self._path_from(start)}".rstrip() + ": "

    def _path_from(self, start: int) -> str:
        """The rest of the path; entries of arrays are counted from 1 and shown with their name."""
        names = dict(self.names)
        text = ""
        for at in range(start, len(self.key)):
            part = self.key[at]
            if isinstance(part, int):
                text += f" {part + 1}" + (f" ({names[at]})" if at in names else "")
            else:
                text += (" " if isinstance(self.key[at - 1], int) else ".") + part if text else part
        return text.lstrip()


class OptionProblem(NamedTuple):
    """A problem that an options class found with one of its own options."""

    name: str
    text: str


class OptionsError(ValueError):
    """Options that are wrong or contradict each other; pydantic passes it on as it is."""

    def __init__(self, *problems: OptionProblem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(f"{name}: {text}" for name, text in self.problems)


def refuse_options(problems: Iterable[OptionProblem]) -> None:
    """Raises ``OptionsError`` with the problems, if there are any."""
    if listed := tuple(problems):
        raise OptionsError(*listed)


class PublisherError(Exception):
    """Root of all errors that the program raises on purpose."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(PublisherError):
    """The command line asks for something impossible."""

    exit_code = 2


class SettingsError(PublisherError):
    """The settings are wrong; ``problems`` has every problem found."""

    exit_code = 2

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> list[str]:
        """The problems as people read them, a line each."""
        return [str(problem) for problem in self.problems]

    def __reduce__(self) -> tuple[type[SettingsError], tuple[tuple[SettingProblem, ...]]]:
        return type(self), (self.problems,)


class FindingsError(PublisherError):
    """A check or a validation printed its findings."""

    exit_code = 3


class BudgetError(PublisherError):
    """The run is complete, but more records were rejected than the budget allows."""

    exit_code = 4


class UnreachableError(PublisherError):
    """A source, a database or a sink does not answer; the same command may succeed later."""

    exit_code = 5


class FatalError(PublisherError):
    """The run cannot continue until the operator has fixed the cause."""


class ReplacedError(FatalError):
    """A newer instance of the job has taken over."""

    exit_code = 6


class RunningError(FatalError):
    """An instance follows the job, and this command must not replace it."""

    exit_code = 7


class TableRefusedError(FatalError):
    """The database describes all tables but this one: no permission, or an invalid view.

    Records of the table are rejected; the run continues.
    """

    reason = "database-refused"
    """Reason of the rejected records."""


class ClassRefusedError(TableRefusedError):
    """The database describes the table, but by its name or its columns it is no class."""

    reason = "table-name"


class FileRefusedError(FatalError):
    """A file as a whole cannot be read with the settings; ``publish`` leaves it out."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem

    def __reduce__(self) -> tuple[type[FileRefusedError], tuple[str, str]]:
        return FileRefusedError, (self.path, self.problem)


class InternalError(PublisherError):
    """The program broke one of its own guarantees; nothing of the run was committed."""


def of_system(error: OSError) -> FatalError:
    """Describes a refusal of the operating system in one line."""
    # a copy names its source first, its target second
    path = error.filename2 or error.filename
    if error.errno in NO_SPACE:
        where = path or "the disk of the output, of the ledger or of Spark's temporary files"
        return FatalError(f"no space left on {where}: free space and start again")
    about = f"{path}: " if path else ""
    advice = _ADVICE.get(error.errno or 0, "fix it")
    return FatalError(f"{about}{error.strerror or error}: {advice}, then start the command again")

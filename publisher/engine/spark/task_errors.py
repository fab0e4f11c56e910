"""Carries the program's errors from Spark tasks to the driver, which sees only text of them.

A task raises :class:`TaskError`, whose message is one line: a mark and JSON.  The driver finds the
line in whatever text Spark wraps around it and raises the error that the task meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from publisher import errors
from publisher.errors import (
    NO_SPACE,
    FatalError,
    PublisherError,
    SettingProblem,
    SettingsError,
    of_system,
)

_MARK = "xds-publisher-error:"
_MARKED = re.compile(re.escape(_MARK) + r"(\{.*\})")
_MESSAGES = (
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        "Spark's files have no room: free space or set spark.local.dir in [spark]",
    ),
    (
        re.compile(r"ModuleNotFoundError: No module named '[^']*'"),
        "install the pinned packages on the nodes or set spark.pyspark.python in [spark]",
    ),
    (
        re.compile(r"java\.lang\.OutOfMemoryError"),
        "Spark ran out of memory: raise spark.driver.memory or spark.executor.memory",
    ),
    (
        re.compile(r"Python worker exited unexpectedly|Python worker crashed"),
        (
            "a Python worker was killed, for want of memory or as a file was cut while it was read:"
            " use fewer cores or more memory, and leave files alone while they are read"
        ),
    ),
)
"""Problems that only Spark notices, and remedies."""


class EngineError(Exception):
    """An unforeseen error of Spark, as text."""


class TaskError(Exception):
    """An error of the program, encoded for the way to the driver."""


@contextmanager
def encode_errors() -> Iterator[None]:
    """In a task: encodes errors of the program, of disk and memory for the driver."""
    try:
        yield
    except (PublisherError, OSError, MemoryError) as error:
        raise encode(error) from error


@contextmanager
def decode_errors() -> Iterator[None]:
    """On the driver, around an action: raises the error of the task instead of Spark's own error."""
    try:
        yield
    except Exception as error:
        meant = decode(error)
        if meant is not None:
            raise meant from error
        if isinstance(error, PySparkException) or "Py4J" in type(error).__name__:
            # its text comes from the JVM, which may be gone when it is read
            raise EngineError(str(error)) from None
        raise


def encode(error: BaseException) -> TaskError:
    """Encodes an error so that Spark can carry it; :func:`decode` restores it."""
    meant = error if isinstance(error, PublisherError) else _explain(error)
    problems = meant.lines if isinstance(meant, SettingsError) else None
    fields = {"type": type(meant).__name__, "message": meant.message, "problems": problems}
    return TaskError(_MARK + json.dumps(fields))


def decode(error: BaseException) -> PublisherError | None:
    """Finds the program's error inside an error of Spark; returns ``None`` if there is none.

    Full disks, exhausted memory and killed workers, which only Spark has noticed, are explained too.
    """
    if isinstance(error, PublisherError):
        return error
    text = str(error)
    marked = _MARKED.search(text)
    if marked:
        fields, _ = json.JSONDecoder().raw_decode(marked.group(1))
        kind: type[PublisherError] = getattr(errors, fields["type"], FatalError)
        if fields["problems"] is not None:
            return SettingsError([SettingProblem((), line) for line in fields["problems"]])
        return kind(fields["message"])
    return _noticed_by_spark(error, text)


def _explain(error: BaseException) -> PublisherError:
    if isinstance(error, MemoryError):
        return FatalError(
            "a worker ran out of memory: use fewer cores or more memory, and start again"
        )
    if isinstance(error, OSError):
        return of_system(error)
    return FatalError(f"{error}: correct this and start again")


def _noticed_by_spark(error: BaseException, text: str) -> PublisherError | None:
    if (
        not isinstance(error, (PySparkException, OSError))
        and "Py4JJavaError" not in type(error).__name__
    ):
        return None
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return of_system(error)
    for pattern, message in _MESSAGES:
        match = pattern.search(text)
        if match:
            return FatalError(f"{match.group()}: {message}, and start again")
    return None

"""Carries the program's errors from Spark tasks to the driver, which receives only their text.

A task raises :class:`TaskError`, whose message is one line: a mark and JSON.  The driver finds the
line in the text that Spark wraps around it, and raises the original error.
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
        "no space is left for Spark's files: free space or set spark.local.dir in [spark]",
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
            "a Python worker was killed: memory ran out, or a file was truncated while it was read;"
            " use fewer cores or more memory, do not change files while they are read"
        ),
    ),
)
"""Problems that only Spark notices, and remedies."""


class EngineError(Exception):
    """An unforeseen error of Spark, as text."""


class TaskError(Exception):
    """An error of the program, encoded as text for the driver."""


@contextmanager
def encode_errors() -> Iterator[None]:
    """Encodes errors of the program, of disk and of memory for the driver; used inside a task."""
    try:
        yield
    except (PublisherError, OSError, MemoryError) as error:
        raise encode(error) from error


@contextmanager
def decode_errors() -> Iterator[None]:
    """Raises the error of the task instead of Spark's own error; used on the driver around an action."""
    try:
        yield
    except Exception as error:
        original = decode(error)
        if original is not None:
            raise original from error
        if isinstance(error, PySparkException) or "Py4J" in type(error).__name__:
            # the error's text comes from the JVM, which may have ended when the text is read
            raise EngineError(str(error)) from None
        raise


def encode(error: BaseException) -> TaskError:
    """Encodes an error as text, which Spark passes to the driver; :func:`decode` restores it."""
    original = error if isinstance(error, PublisherError) else _explain(error)
    problems = original.lines if isinstance(original, SettingsError) else None
    fields = {"type": type(original).__name__, "message": original.message, "problems": problems}
    return TaskError(_MARK + json.dumps(fields))


def decode(error: BaseException) -> PublisherError | None:
    """Finds the program's error inside an error of Spark; returns ``None`` if there is none.

    Full disks, exhausted memory and killed workers, which only Spark notices, are explained, too.
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
    return _explain_spark_error(error, text)


def _explain(error: BaseException) -> PublisherError:
    if isinstance(error, MemoryError):
        return FatalError(
            "a worker ran out of memory: use fewer cores or more memory, and start again"
        )
    if isinstance(error, OSError):
        return of_system(error)
    return FatalError(f"{error}: correct this and start again")


def _explain_spark_error(error: BaseException, text: str) -> PublisherError | None:
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

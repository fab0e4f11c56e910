"""Tracebacks and log records of libraries on standard error, without secrets."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from types import TracebackType

from publisher.cli.print_report import echo
from publisher.redaction import hides_values, redact_all

_TRACEBACK = "Traceback (most recent call last):\n"


def show_traceback() -> None:
    """Prints the traceback of the current exception."""
    _show_uncaught(*sys.exc_info())


def redact_uncaught() -> None:
    """Redacts the tracebacks that Python prints of uncaught exceptions, in any thread."""
    sys.excepthook = _show_uncaught
    threading.excepthook = lambda args: _show_uncaught(
        args.exc_type, args.exc_value, args.exc_traceback
    )


def library_log() -> logging.Handler:
    """Returns the handler for warnings and errors of libraries."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_RedactedFormatter())
    return handler


class _RedactedFormatter(logging.Formatter):
    """Formats log records and their tracebacks without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_all(super().format(record))


def _show_uncaught(
    kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
) -> None:
    if kind is not None and hides_values():  # the messages of errors may quote values
        _show("".join([_TRACEBACK, *traceback.format_tb(where), kind.__name__]))
        return
    _show("".join(traceback.format_exception(kind, error, where)))


def _show(text: str) -> None:
    echo(redact_all(text).splitlines(), err=True)

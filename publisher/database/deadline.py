"""Asks a database for no longer than a few seconds, for answers that a report can do without."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from publisher.errors import UnreachableError

T = TypeVar("T")

SECONDS = 5.0


def ask_briefly(ask: Callable[[], T]) -> T:
    """Returns what ``ask`` returns, or raises what it raises.

    A database that is locked or cannot be reached may answer after minutes, so the thread is not waited for.

    Raises:
        UnreachableError: There is no answer after ``SECONDS``.
    """
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
            answer.set_exception(error)

    Thread(target=work, name="ask", daemon=True).start()
    try:
        return answer.result(SECONDS)
    except TimeoutError:
        raise UnreachableError(
            f"the database has not answered within {SECONDS:.0f} s: try again later"
        ) from None

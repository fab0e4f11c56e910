"""Lists of texts in settings, each taken apart; every wrong one is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def parse_each(name: str, texts: Iterable[str], parse: Callable[[str], T]) -> tuple[T, ...]:
    """The parsed texts of the setting ``name``.

    Raises ``ValueError`` with a line for each wrong one, as ``NAME: what is wrong``.
    """
    parsed: list[T] = []
    problems: list[str] = []
    for text in texts:
        try:
            parsed.append(parse(text))
        except ValueError as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise ValueError("\n".join(problems))
    return tuple(parsed)

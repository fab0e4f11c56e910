"""Lists of texts in settings, each taken apart; every wrong one is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from publisher.errors import OptionProblem, refuse_options

T = TypeVar("T")


def parse_each(name: str, texts: Iterable[str], parse: Callable[[str], T]) -> tuple[T, ...]:
    """The parsed texts of the setting ``name``.

    Raises ``OptionsError`` with a problem for each wrong one.
    """
    parsed: list[T] = []
    problems: list[OptionProblem] = []
    for text in texts:
        try:
            parsed.append(parse(text))
        except ValueError as error:
            problems.append(OptionProblem(name, str(error)))
    refuse_options(problems)
    return tuple(parsed)

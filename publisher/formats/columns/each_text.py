"""Parses settings that are lists of texts, and reports every wrong text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from publisher.errors import OptionProblem, refuse_options

T = TypeVar("T")


def parse_each(name: str, texts: Iterable[str], parse: Callable[[str], T]) -> tuple[T, ...]:
    """Parses the texts of the setting ``name``.

    Raises ``OptionsError`` with a problem for each wrong text.
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


def find_declaration_problems(
    setting: str, noun: str, names: Sequence[str], key: Sequence[str]
) -> list[OptionProblem]:
    """Finds problems of the names that ``setting`` declares, and of ``key``, which lists some of them.

    ``noun`` is the word for one such name in messages, for example ``a column``.
    """
    problems = []
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        text = f"{', '.join(double)} appears twice; give each {noun.rsplit(maxsplit=1)[-1]} its own name"
        problems.append(OptionProblem(setting, text))
    absent = [name for name in key if names and name not in names]
    if absent or len(set(key)) < len(key):
        text = (
            f"{', '.join(absent) or noun} is not among the {setting} or appears twice; name {setting} of"
            " the primary key"
        )
        problems.append(OptionProblem("key", text))
    return problems

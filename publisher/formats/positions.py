"""Positions that users write on the command line."""

from __future__ import annotations

from collections.abc import Callable

from publisher.errors import UsageError
from publisher.model.change import Position

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


def parse_position(text: str, parse: Callable[[str], Position]) -> Position:
    """Parses a position by the rules of its source, and checks that its numbers can be stored.

    Raises:
        UsageError: The text is not a position, or a number is too large.
    """
    try:
        position = parse(text)
    except ValueError as error:  # Python converts no more than 4,300 digits
        raise _too_large(text) from error
    if not all(_LEAST <= number <= _GREATEST for number in (position.high, position.low)):
        raise _too_large(text)
    return position


def _too_large(text: str) -> UsageError:
    excerpt = text if len(text) <= 50 else f"{text[:50]}…"
    return UsageError(
        f"position {excerpt!r} is too large: a number may be {_GREATEST:,} at most; copy the position "
        "from a report, a document or explain"
    )

"""Removes secrets from messages of drivers and libraries.

A message is redacted by place: the value after ``password=``, the user and password of a URL.  A short
secret is not replaced everywhere: it may occur in ordinary words, and a replacement there would destroy
the message and reveal its letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"

_WORD = r"(?<![\w.\-])(?=[\w.\-]{0,200}?(?:%s))[\w.\-]{1,256}"
_PASSWORD = _WORD % r"passw(?:or)?d|passphrase|pwd|secret"
_NAME = _WORD % r"passw(?:or)?d|passphrase|pwd|secret|token|jaas\.config"
_VALUE = r"""(?:"(?:[^"\\]|\\.){0,4096}"|'(?:[^'\\]|\\.){0,4096}'|[^\s;&,)"']+)"""
_ASSIGNED = re.compile(
    rf"""((?:{_NAME}["']?\s*=|{_PASSWORD}["']?\s*:)\s*)(?!(?:YES|NO)\b){_VALUE}""", re.IGNORECASE
)
"""``password=x``, ``PWD: 'x'``, ``"sasl.password": "x"``; MariaDB says "using password: YES"."""
_SAID_AFTER = re.compile(
    rf"""(value\s+){_VALUE}(\s+for\s+(?:configuration\s+)?property\s+["']?{_NAME})""",
    re.IGNORECASE,
)
"""librdkafka writes the value before the property's name."""
_IDENTIFIED = re.compile(rf"(\bidentified\s+(?:by|with\s+\S+\s+by)\s+){_VALUE}", re.IGNORECASE)
_IN_URL = re.compile(r"""((?<![\w+.\-])[\w+.\-]+://)[^\s/"'<>]*@""")
_FIELD = re.compile(r"""[^\s"'(),;]+""")
_WORDLIKE = re.compile(r"[A-Za-z]{1,11}")
_MARK = "\0"
"""Replaces a known secret until the field around it is replaced."""
_LEAST = 8
"""Minimum length of a secret that no ordinary message contains by accident."""

_remembered: set[str] = set()
_values_are_masked = False


def remember(secrets: Iterable[str]) -> None:
    """Remembers secrets of the settings for ``redact_all``."""
    _remembered.update(secrets)


def mask_values() -> None:
    """Announces a masked run: messages of drivers and libraries, which may quote values, are hidden."""
    global _values_are_masked  # noqa: PLW0603 - like the remembered secrets, for this process
    _values_are_masked = True


def show_values() -> None:
    """Begins a command, whose messages are shown until a masked run is announced."""
    global _values_are_masked  # noqa: PLW0603 - see ``mask_values``
    _values_are_masked = False


def hides_values() -> bool:
    """Returns whether messages of drivers and libraries are hidden."""
    return _values_are_masked


def hide_values(text: str) -> str:
    """Replaces a text that may quote values, if they are masked."""
    return "masking hides its message" if _values_are_masked else text


def redact_all(text: str) -> str:
    """Redacts a text of any origin, such as a traceback, with all remembered secrets."""
    return redact(text, _remembered)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Replaces complete fields of a text that contain secrets, in linear time.

    ``secrets`` are known values.  A known value that cannot be part of an ordinary word is replaced
    everywhere, with the field around it.
    """
    text = _IN_URL.sub(rf"\1{HIDDEN}@", text)
    text = _ASSIGNED.sub(rf"\1{HIDDEN}", text)
    text = _SAID_AFTER.sub(rf"\1{HIDDEN}\2", text)
    text = _IDENTIFIED.sub(rf"\1{HIDDEN}", text)
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= _LEAST and not _WORDLIKE.fullmatch(secret):
            text = text.replace(secret, _MARK)
    return _FIELD.sub(lambda field: HIDDEN if _MARK in field[0] else field[0], text)

"""Text in XML: characters to escape, and characters that XML 1.0 forbids.

The production ``Char`` of XML 1.0 excludes control characters except tab, LF and CR, surrogates, U+FFFE
and U+FFFF.  Not even references to them are allowed.  Line breaks are written as references, so that a
document is one line and parsers preserve a CR.
"""

from __future__ import annotations

import re
from functools import lru_cache

from publisher.model.change import Reason

_FORBIDDEN_CLASS = "\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff"

FORBIDDEN = re.compile(f"[{_FORBIDDEN_CLASS}]")
needs_attention = re.compile(f"[&<>\n\r{_FORBIDDEN_CLASS}]").search
"""Finds the first character that element text cannot contain unescaped."""

_FORBIDDEN_CLASS_RE2 = r"\x{0}-\x{8}\x{b}\x{c}\x{e}-\x{1f}\x{fffe}\x{ffff}"
_ATTENTION_RE2 = r"&<>\n\r" + _FORBIDDEN_CLASS_RE2
FORBIDDEN_RE2 = f"[{_FORBIDDEN_CLASS_RE2}]"
"""``FORBIDDEN`` for columns of UTF-8, which has no surrogates."""
VERBATIM = f"^[^{_ATTENTION_RE2}]*$"
"""Text that needs no escaping in an element, as a regular expression of RE2."""
VERBATIM_TRIMMED = f"^(?:[^{_ATTENTION_RE2}]*[^ {_ATTENTION_RE2}])?$"
"""As ``VERBATIM``, for text that does not end with a blank."""

REFERENCES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "&#10;", "\r": "&#13;"}
"""References in element text, in the order of replacement: all contain an ampersand."""
_IN_ATTRIBUTE_TABLE = str.maketrans(REFERENCES | {'"': "&quot;", "\t": "&#9;"})


LONGEST_TEXT = 10_000_000
"""Maximum bytes of an element's text, without escapes: libxml2, thus lxml, refuses more by default."""
LONGEST_TAG = 9_990_000
"""Maximum bytes of an attribute; libxml2 limits a tag with its attributes to as many bytes as a text."""
_SHORT = LONGEST_TAG // 4
"""Texts with at most so many characters are never too long."""


class ValueProblem(ValueError):  # noqa: N818 -- becomes a reject, not an error
    """A value or name that a document cannot contain; its record is rejected.

    ``detail`` describes the problem and what to do.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


def refuse_forbidden(text: str, what: str, advice: str) -> None:
    """Raises ``ValueProblem`` for the first character that XML 1.0 forbids."""
    match = FORBIDDEN.search(text)
    if match is not None:
        raise ValueProblem(
            Reason.FORBIDDEN_CHARACTER,
            f"{what} has U+{ord(match[0]):04X} at character {match.start()}, "
            f"which XML 1.0 forbids: {advice}",
        )


def refuse_long(xml: str, what: str) -> None:
    """Raises ``ValueProblem`` for an escaped text, or a ``<value>``, that XML parsers refuse by default."""
    if len(xml) <= _SHORT:
        return
    tag, _, text = xml.removesuffix("</value>").rpartition('">')
    size, limit = len(unescape(text).encode()), LONGEST_TEXT
    if len(tag.encode()) > LONGEST_TAG:
        size, limit = len(tag.encode()), LONGEST_TAG
    if size > limit:
        raise ValueProblem(
            Reason.LONG_VALUE,
            f"{what} has {size:,} bytes, and parsers of XML refuse more than {limit:,}: shorten it in the"
            ' source, exclude its column, or set value_format = "json"',
        )


def escape_text(text: str, what: str = "the text") -> str:
    """Escapes ``text`` as element content.  Raises ``ValueProblem`` for forbidden characters.

    Use this function for names and keys.  Their forbidden characters are never replaced, because different
    names or keys could become equal.
    """
    if needs_attention(text) is None:
        return text
    refuse_forbidden(text, what, "fix it in the source")
    return escape_permitted(text)


def escape_permitted(text: str) -> str:
    """Escapes ``text`` without forbidden characters as element content."""
    # a chain of replacements takes a quarter of the time of ``translate``
    for character, reference in REFERENCES.items():
        text = text.replace(character, reference)
    return text


def unescape(text: str) -> str:
    """Returns the text that ``escape_permitted`` has escaped."""
    if "&" not in text:
        return text
    for character, reference in reversed(REFERENCES.items()):
        text = text.replace(reference, character)
    return text


def attribute_text(text: str, what: str | None = None) -> str:
    """Escapes ``text`` for an attribute in double quotes.  Raises ``ValueProblem``."""
    refuse_forbidden(text, what or f"the name {text[:80]!r}", "fix it in the source")
    return text.translate(_IN_ATTRIBUTE_TABLE)


escape_attribute = lru_cache(maxsize=4096)(attribute_text)
"""``attribute_text`` with a cache for names that occur often."""

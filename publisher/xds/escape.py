"""Text in XML: what must be escaped, and what XML 1.0 forbids.

Forbidden is all that the production ``Char`` of XML 1.0 leaves out: control characters but tab, LF
and CR, surrogates, U+FFFE and U+FFFF.  They cannot be written, not even as references.  Line breaks
go out as references, so that a document is one line and a CR survives the reader.
"""

from __future__ import annotations

import re
from functools import lru_cache

from publisher.model.change import Reason

_FORBIDDEN_CLASS = "\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff"

FORBIDDEN = re.compile(f"[{_FORBIDDEN_CLASS}]")
needs_attention = re.compile(f"[&<>\n\r{_FORBIDDEN_CLASS}]").search
"""Finds the first character that cannot stand in element text as it is."""

_FORBIDDEN_CLASS_RE2 = r"\x{0}-\x{8}\x{b}\x{c}\x{e}-\x{1f}\x{fffe}\x{ffff}"
_ATTENTION_RE2 = r"&<>\n\r" + _FORBIDDEN_CLASS_RE2
FORBIDDEN_RE2 = f"[{_FORBIDDEN_CLASS_RE2}]"
"""As ``FORBIDDEN``, for columns of UTF-8, which has no surrogates."""
VERBATIM = f"^[^{_ATTENTION_RE2}]*$"
"""Text that stands in an element as it is, as a regular expression of RE2."""
VERBATIM_TRIMMED = f"^(?:[^{_ATTENTION_RE2}]*[^ {_ATTENTION_RE2}])?$"
"""As ``VERBATIM``, without a blank at its end."""

# "&" first: the others bring one in
_IN_TEXT = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "&#10;", "\r": "&#13;"}
_IN_ATTRIBUTE_TABLE = str.maketrans(_IN_TEXT | {'"': "&quot;", "\t": "&#9;"})


class ValueProblem(ValueError):  # noqa: N818 -- becomes a reject, not an error
    """A value or name that cannot go into a document.  Its record becomes a reject.

    ``reason`` is the reject's reason, ``detail`` says what is wrong and what to do.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


def refuse_forbidden(text: str, what: str, advice: str) -> None:
    """Raises ``ValueProblem`` for the first character that XML 1.0 forbids."""
    found = FORBIDDEN.search(text)
    if found is not None:
        raise ValueProblem(
            Reason.FORBIDDEN_CHARACTER,
            f"{what} has U+{ord(found[0]):04X} at character {found.start()}, "
            f"which XML 1.0 forbids: {advice}",
        )


def escape_text(text: str, what: str = "the text") -> str:
    """``text`` as element content.  Raises ``ValueProblem`` for what XML 1.0 forbids.

    For names and keys, which are never replaced: two of them could become the same.
    """
    if needs_attention(text) is None:
        return text
    refuse_forbidden(text, what, "mend it in the source")
    return escape_kept(text)


def escape_kept(text: str) -> str:
    """``text`` as element content, where it is known that it has no forbidden character."""
    # a chain of replacements takes a quarter of the time of ``translate``
    for character, reference in _IN_TEXT.items():
        text = text.replace(character, reference)
    return text


def attribute_text(text: str) -> str:
    """``text`` as the content of an attribute in double quotes.  Raises ``ValueProblem``."""
    refuse_forbidden(text, f"the name {text[:80]!r}", "mend it in the source")
    return text.translate(_IN_ATTRIBUTE_TABLE)


escape_attribute = lru_cache(maxsize=4096)(attribute_text)
"""As ``attribute_text``, for names that come again and again."""

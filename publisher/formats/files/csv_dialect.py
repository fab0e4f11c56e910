"""The dialect of a CSV file: separators and marks of text, as patterns of bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from publisher.formats.files.options import SnapshotOptions


@dataclass(frozen=True, slots=True)
class Dialect:
    """The grammar of fields."""

    delimiter: bytes
    quote: bytes
    """Empty for files without quotes."""
    escape: bytes
    """Precedes a quote in quoted text; equals the quote if quotes are doubled."""
    quoted: re.Pattern[bytes]
    """A quoted field."""
    doubled: re.Pattern[bytes] | None
    """A quoted field up to two escapes in a row; ``None`` if quotes are doubled."""
    unquoted: re.Pattern[bytes]
    """Text up to a delimiter or line end."""
    valid_fields: re.Pattern[bytes] | None
    """Unquoted fields of a record and their delimiters: no quote, no line end; ``None`` if delimiters are
    longer than a byte."""
    shifts: tuple[int, ...]
    """Distances at which a delimiter overlaps itself."""

    @property
    def is_plain(self) -> bool:
        """True if delimiters and quotes are single bytes, so that counting them finds the fields."""
        return len(self.delimiter) == 1 and self.escape == self.quote

    def overlaps_itself(self, data: bytes, at: int) -> bool:
        """Tests whether the delimiter at ``at`` could also be read a few bytes later."""
        if not self.shifts or data.startswith(self.delimiter, at + len(self.delimiter)):
            return False
        return any(data.startswith(self.delimiter, at + shift) for shift in self.shifts)

    def text_of(self, field: bytes) -> bytes:
        """Returns the text of a quoted field."""
        return field[1:-1].replace(self.escape + self.quote, self.quote)


def dialect_of(options: SnapshotOptions) -> Dialect:
    """Returns the dialect of the settings."""
    return _dialect(options.delimiter, options.quote, options.escape)


@lru_cache(maxsize=64)
def _dialect(delimiter: str, quote: str, escape: str) -> Dialect:
    mark, before = quote.encode(), (escape or quote).encode()
    quoted, doubled = _quoted_patterns(mark, before)
    separator = delimiter.encode()
    return Dialect(
        separator,
        mark,
        before,
        quoted,
        doubled,
        _unquoted_pattern(separator),
        re.compile(rb"[^\r\n%b]*+" % re.escape(mark)) if len(separator) == 1 else None,
        tuple(n for n in range(1, len(separator)) if separator.startswith(separator[n:])),
    )


def _quoted_patterns(
    quote: bytes, escape: bytes
) -> tuple[re.Pattern[bytes], re.Pattern[bytes] | None]:
    """Builds the patterns of a quoted field, and of one up to two escapes in a row."""
    if not quote:
        return re.compile(rb"(?!)"), None
    q, e = re.escape(quote), re.escape(escape)
    if escape == quote:
        return re.compile(rb"%b(?:[^%b]++|%b%b)*+%b" % (q, q, q, q, q)), None
    inside = rb"%b(?:[^%b%b]++|%b[\x00-\xff])*+" % (q, q, e, e)
    plain = rb"%b(?:[^%b%b]++|%b[^%b])*+" % (q, q, e, e, e)
    return re.compile(inside + q), re.compile(plain + e + e)


def _unquoted_pattern(delimiter: bytes) -> re.Pattern[bytes]:
    first, whole = re.escape(delimiter[:1]), re.escape(delimiter)
    text = rb"[^\n%b]*+" % first
    if len(delimiter) > 1:
        text += rb"(?:(?!%b)%b[^\n%b]*+)*+" % (whole, first, first)
    return re.compile(text)

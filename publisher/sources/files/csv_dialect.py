"""The dialect of a CSV file: separators and marks of text, as patterns of bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from publisher.sources.files.options import SnapshotOptions


@dataclass(frozen=True, slots=True)
class Dialect:
    """The grammar of fields."""

    delimiter: bytes
    quote: bytes
    """Empty for files without quotes."""
    escape: bytes
    """Precedes a quote in quoted text; equals the quote if quotes are doubled."""
    line_breaks: bool
    """Whether quoted text may contain line ends."""
    quoted: re.Pattern[bytes]
    """A quoted field."""
    begun: re.Pattern[bytes]
    """The beginning of a quoted field that has not ended yet."""
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
    return _dialect(options.delimiter, options.quote, options.escape, options.holds_line_breaks)


@lru_cache(maxsize=64)
def _dialect(delimiter: str, quote: str, escape: str, line_breaks: bool) -> Dialect:
    mark, before = quote.encode(), (escape or quote).encode()
    quoted, begun, doubled = _quoted_patterns(mark, before, line_breaks)
    separator = delimiter.encode()
    return Dialect(
        separator,
        mark,
        before,
        line_breaks,
        quoted,
        begun,
        doubled,
        _unquoted_pattern(separator),
        re.compile(rb"[^\r\n%b]*+" % re.escape(mark)) if len(separator) == 1 else None,
        tuple(n for n in range(1, len(separator)) if separator.startswith(separator[n:])),
    )


def _quoted_patterns(
    quote: bytes, escape: bytes, line_breaks: bool
) -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes] | None]:
    """Builds the patterns of a quoted field: whole, not ended, and up to two escapes in a row."""
    if not quote:
        never = re.compile(rb"(?!)")
        return never, never, None
    q, e, end = re.escape(quote), re.escape(escape), b"" if line_breaks else rb"\n"
    if escape == quote:
        inside, doubled = rb"%b(?:[^%b%b]++|%b%b)*+" % (q, q, end, q, q), None
    else:
        after = rb"[^\n]" if end else rb"[\x00-\xff]"
        inside = rb"%b(?:[^%b%b%b]++|%b%b)*+" % (q, q, e, end, e, after)
        plain = rb"%b(?:[^%b%b%b]++|%b[^%b%b])*+" % (q, q, e, end, e, e, end)
        doubled = re.compile(plain + e + e)
    return re.compile(inside + q), re.compile(inside), doubled


def _unquoted_pattern(delimiter: bytes) -> re.Pattern[bytes]:
    first, whole = re.escape(delimiter[:1]), re.escape(delimiter)
    text = rb"[^\n%b]*+" % first
    if len(delimiter) > 1:
        text += rb"(?:(?!%b)%b[^\n%b]*+)*+" % (whole, first, first)
    return re.compile(text)

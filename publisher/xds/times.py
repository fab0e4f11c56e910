"""Dates and times by the driver's parameter Time Syntax.

* 1, integer: whole seconds since 1970-01-01 UTC.  The fraction is lost (known issue of the driver).
  A date means its midnight, a time of day is on 1970-01-01.  The directory's Time has 32 bits, signed
  or unsigned: ``TimeRange`` selects the seconds that are published, others are refused.
* 2, canonical: ``HHMMSS``, ``CCYYMMDD``, ``CCYYMMDDHHMMSSNNNNNNNNN``.
* 3, Java: the text of ``toString`` in ``java.sql``: ``hh:mm:ss``, ``yyyy-mm-dd`` and
  ``yyyy-mm-dd hh:mm:ss.f``, with a fraction of 1 to 9 digits.

Input is ``yyyy-mm-dd hh:mm:ss.fffffffff``.  A ``T`` may replace the blank, fraction and seconds may be
missing, and ``Z`` or an offset may follow.  Times without an offset are in the time zone of the settings,
others are converted to that zone.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from publisher.errors import OptionProblem
from publisher.model.change import Reason
from publisher.model.keys import BLANKS
from publisher.xds.escape import ValueProblem

TimeSyntax = Literal[1, 2, 3]
TimeRange = Literal["32-bit", "unsigned", "signed", "any"]

_RANGES: Mapping[TimeRange, tuple[int, int] | None] = {
    "32-bit": (-(2**31), 2**32 - 1),
    "unsigned": (0, 2**32 - 1),
    "signed": (-(2**31), 2**31 - 1),
    "any": None,
}
"""First and last second of each range; ``32-bit`` covers signed and unsigned numbers."""

_DATE = r"(?P<date>\d{4}-\d\d-\d\d)"
_CLOCK = r"(?P<clock>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d{1,9}))?"
_OFFSET = r"(?: ?(?P<offset>[Zz]|[+-]\d\d(?::?\d\d(?::?\d\d)?)?))?"
_TIMESTAMP = re.compile(rf"{_DATE}(?:[ Tt]{_CLOCK}{_OFFSET})?", re.ASCII).fullmatch
_TIME = re.compile(_CLOCK + _OFFSET, re.ASCII).fullmatch
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = dt.timedelta(seconds=1)


class _Moment(NamedTuple):
    """A time to the second in the time zone of the settings, and its nanoseconds."""

    local: dt.datetime
    nanos: int


def time_zone(name: str) -> dt.tzinfo:
    """Returns the zone with this IANA name.  Raises ``ValueError`` for an unknown name."""
    if name == "UTC":  # needs no time zone data on the machine
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is not known; write a name such as Europe/Berlin") from error


def zone_problems(name: str) -> Iterator[OptionProblem]:
    """Checks the option ``time_zone``."""
    try:
        time_zone(name)
    except ValueError as error:
        yield OptionProblem("time_zone", str(error))


class Times:
    """Converts dates and times to the text of documents."""

    def __init__(self, syntax: TimeSyntax, zone: dt.tzinfo, range_: TimeRange = "32-bit") -> None:
        self._syntax = syntax
        self._zone = zone
        self._range = range_

    @property
    def value_type(self) -> Literal["time", "string"]:
        """Type of the value element: ``time`` for seconds, else ``string``."""
        return "time" if self._syntax == 1 else "string"

    def timestamp(self, text: str) -> str:
        """Converts a timestamp; a date alone means its midnight.  Raises ``ValueProblem``."""
        moment = self._read(text, "timestamp", "yyyy-mm-dd hh:mm:ss.fffffffff")
        if self._syntax == 1:
            return self._seconds(moment.local, text)
        if self._syntax == 2:
            return f"{_digits(moment.local, '-: ')}{moment.nanos:09d}"
        fraction = f"{moment.nanos:09d}".rstrip("0") or "0"
        return f"{_plain(moment.local)}.{fraction}"

    def date(self, text: str) -> str:
        """Converts a date without time of day.  Raises ``ValueProblem``."""
        match = _TIMESTAMP(text.strip(BLANKS))
        if match is not None:
            if f"{match['clock'] or ''}{match['fraction'] or ''}".strip("0:"):
                raise _not_a(text, "date without time of day", "declare the column as timestamp")
            text = match["date"]  # a date has no zone, even if its midnight was printed with one
        moment = self._read(text, "date", "yyyy-mm-dd")
        if self._syntax == 1:
            return self._seconds(moment.local, text)
        day = _plain(moment.local)[:10]
        return day if self._syntax == 3 else day.replace("-", "")

    def time(self, text: str) -> str:
        """Converts a time of day without its fraction.  Raises ``ValueProblem``."""
        match = _TIME(text.strip(BLANKS))
        if match is None:
            raise _not_a(text, "time", "write hh:mm:ss")
        try:
            moment = self._read(f"1970-01-01 {match[0]}", "time", "hh:mm:ss")
        except ValueProblem:
            advice = "there is no such time of day; write hh:mm:ss, or declare the column as string"
            raise _not_a(text, "time", advice) from None
        if self._syntax == 1:
            return self._seconds(moment.local, text)
        clock = _plain(moment.local)[11:]
        return clock if self._syntax == 3 else clock.replace(":", "")

    def _seconds(self, moment: dt.datetime, text: str) -> str:
        """Returns whole seconds since 1970.  Raises ``ValueProblem`` if they are out of range."""
        seconds = (moment - _EPOCH) // _SECOND
        limits = _RANGES[self._range]
        if limits is not None and not limits[0] <= seconds <= limits[1]:
            raise ValueProblem(
                Reason.VALUE,
                f"{text[:40]!r} is {seconds} seconds since 1970, beyond the range {self._range} of the "
                f'directory\'s Time ({limits[0]} to {limits[1]}): set time_range = "any" to publish it '
                "anyway, or time_syntax = 2 or 3 to publish text",
            )
        return str(seconds)

    def _read(self, text: str, what: str, form: str) -> _Moment:
        match = _TIMESTAMP(text.strip(BLANKS))
        if match is None:
            raise _not_a(text, what, f"write {form}")
        try:
            local = dt.datetime.fromisoformat(f"{match['date']} {match['clock'] or '00:00'}")
            if match["offset"] is None:
                local = local.replace(tzinfo=self._zone)
            else:
                local = local.replace(tzinfo=_offset(match["offset"])).astimezone(self._zone)
        except (ValueError, OverflowError) as error:
            advice = f"there is no such {what}; write {form}, or declare the column as string"
            raise _not_a(text, what, advice) from error
        return _Moment(local, int((match["fraction"] or "0").ljust(9, "0")))


def _offset(text: str) -> dt.tzinfo:
    if text in "Zz":
        return dt.UTC
    digits = text[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:])
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return dt.timezone(-offset if text[0] == "-" else offset)


def _plain(moment: dt.datetime) -> str:
    """Formats a time as ``yyyy-mm-dd hh:mm:ss``; strftime does not pad years below 1000."""
    return moment.replace(tzinfo=None).isoformat(" ", "seconds")


def _digits(moment: dt.datetime, separators: str) -> str:
    return _plain(moment).translate(dict.fromkeys(map(ord, separators)))


def _not_a(text: str, what: str, advice: str) -> ValueProblem:
    return ValueProblem(Reason.VALUE, f"{text[:40]!r} is not a {what}: {advice}")

"""Converts columns of a batch to the types of records: in bulk, and row by row if that fails.

Text files give text, Parquet and databases give typed values; both are accepted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.keys import BLANKS

Integers = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]
"""Values, and marks of the valid values; invalid values are 0."""

LARGEST = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_NUMERIC = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_null,
)
_PLAIN_INTEGER = "^[0-9]{1,18}$"
_PLAIN_TIME = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?$"
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ Tt](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?"
    r"\s*(?:(Z|z|UTC)|([+-])(\d\d)(?::?(\d\d))?)?",
    re.ASCII,
)


def plain(array: pa.Array) -> pa.Array:
    """Removes dictionaries and large offsets from an array."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if (
        pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        return array.cast(pa.binary())
    return array


def texts(array: pa.Array) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Converts a column to text and marks its valid values; bytes that are not text become null."""
    array = plain(array)
    valid = np.ones(len(array), bool)
    if pa.types.is_string(array.type):
        return array, valid
    if pa.types.is_nested(array.type):
        return pa.nulls(len(array), pa.string()), ~_valid(array)
    try:
        return array.cast(pa.string()), valid
    except pa.ArrowInvalid:
        decoded = [_decode(value) for value in array.to_pylist()]
        valid = np.array([readable for _, readable in decoded], bool)
        return pa.array([value for value, _ in decoded], pa.string()), valid


def _decode(value: bytes | None) -> tuple[str | None, bool]:
    """Decodes bytes, and reports whether they are text."""
    if value is None:
        return None, True
    try:
        return value.decode(), True
    except UnicodeDecodeError:
        return None, False


def integers(array: pa.Array) -> Integers:
    """Converts a column to integers of 64 bits; fractions and other text are invalid."""
    array = _text_of_bytes(array)
    if not any(is_kind(array.type) for is_kind in _NUMERIC):
        return _all_invalid(array)
    try:
        # casts also accept signs and hexadecimal numbers; a regular expression takes ten times as long
        if (
            pa.types.is_string(array.type)
            and not pc.all(pc.ascii_is_decimal(array), min_count=0).as_py()
        ):
            raise pa.ArrowInvalid
        return _numbers(array.cast(pa.int64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _convert_mixed_types(
            array, _PLAIN_INTEGER, lambda part: _numbers(part.cast(pa.int64())), _integer
        )


def times(array: pa.Array, zone: str) -> Integers:
    """Converts a column to microseconds since 1970-01-01 UTC; ``zone`` applies to times without zone.

    Text is ISO 8601 or ODBC (``yyyy-mm-dd hh:mm:ss.fffffffff``); digits below a microsecond are dropped.
    When clocks change, an ambiguous local time is the earlier one, and a skipped local time is read with
    the offset before the change.  Years are 1 to 9999.
    """
    array = _text_of_bytes(array)
    if pa.types.is_date(array.type):
        array = array.cast(pa.date32()).cast(pa.timestamp("s"))
    if pa.types.is_timestamp(array.type):
        moments = _microseconds(array)
        return moments if array.type.tz else _to_utc(moments, zone)
    if pa.types.is_string(array.type):
        return _times_of_text(array, zone)
    return _all_invalid(array)


def _times_of_text(array: pa.Array, zone: str) -> Integers:
    try:
        return _to_utc(_microseconds(_parse_zoneless(array)), zone)
    except pa.ArrowInvalid:
        pass
    try:
        return _microseconds(array.cast(pa.timestamp("us", "UTC")))
    except pa.ArrowInvalid:
        pass
    local = ZoneInfo(zone)
    return _convert_mixed_types(
        array,
        _PLAIN_TIME,
        lambda part: _to_utc(_microseconds(_parse_zoneless(part)), zone),
        lambda value: _time(value, local),
    )


def _microseconds(array: pa.Array) -> Integers:
    """Converts timestamps of any unit; those outside the years 1 to 9999 are invalid."""
    values, valid = _numbers(array)
    unit = {"s": 1_000_000, "ms": 1000}.get(array.type.unit, 1)
    if array.type.unit == "ns":
        values = values // 1000
    valid = valid & (values >= _FIRST // unit) & (values <= _LAST // unit)
    return np.where(valid, values, 0) * unit, valid


def _to_utc(local: Integers, zone: str) -> Integers:
    """Converts local times of a zone to UTC with the standard library: Arrow has no rules after 2037."""
    values, valid = local
    if zone == "UTC":
        return local
    rules = ZoneInfo(zone)
    seconds, indices = np.unique(values // 1_000_000, return_inverse=True)
    offsets = [_offset(second, rules) for second in seconds.tolist()]
    return np.where(valid, values - np.array(offsets, np.int64)[indices], 0), valid


def _offset(second: int, zone: ZoneInfo) -> int:
    local = (_EPOCH + timedelta(seconds=second)).replace(tzinfo=zone)
    offset = local.utcoffset()
    return (offset or timedelta()) // _MICROSECOND


def _text_of_bytes(array: pa.Array) -> pa.Array:
    array = plain(array)
    return texts(array)[0] if pa.types.is_binary(array.type) else array


def _all_invalid(array: pa.Array) -> Integers:
    return np.zeros(len(array), np.int64), np.zeros(len(array), bool)


def _parse_zoneless(array: pa.Array) -> pa.Array:
    """Converts text without zone to timestamps.  Raises ``ArrowInvalid`` for any other text."""
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    if longest > 26:
        nanoseconds = pc.utf8_slice_codeunits(array, 26)
        if longest > 29 or pc.any(pc.match_substring_regex(nanoseconds, "[^0-9]")).as_py():
            raise pa.ArrowInvalid
        array = pc.utf8_slice_codeunits(array, 0, 26)
    return array.cast(pa.timestamp("us"))


def _numbers(array: pa.Array) -> Integers:
    return array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), _valid(array)


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _convert_mixed_types(
    array: pa.Array,
    pattern: str,
    bulk: Callable[[pa.Array], Integers],
    single: Callable[[object], int | None],
) -> Integers:
    """Converts text that matches ``pattern`` in bulk, and other rows (all, if bulk fails) one by one."""
    values, valid = np.zeros(len(array), np.int64), np.zeros(len(array), bool)
    if pa.types.is_string(array.type):
        matches = pc.match_substring_regex(array, pattern).fill_null(False)
        try:
            in_bulk = matches.to_numpy(zero_copy_only=False)
            values[in_bulk], valid[in_bulk] = bulk(array.filter(matches))
        except pa.ArrowInvalid:
            values[:] = 0
    for i in np.flatnonzero(~valid).tolist():
        value = single(array[i].as_py())
        if value is not None:
            values[i], valid[i] = value, True
    return values, valid


def _integer(value: object) -> int | None:
    if isinstance(value, str):
        value = value.strip()
        if not re.fullmatch(r"[+-]?[0-9]{1,40}", value):
            return None
        number = int(value)
    elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        if not math.isfinite(value) or value != int(value):
            return None
        number = int(value)
    else:
        return None
    return number if -LARGEST <= number <= LARGEST else None


def _time(value: object, zone: ZoneInfo) -> int | None:
    match = _TIME.fullmatch(value.strip(BLANKS)) if isinstance(value, str) else None
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, utc, sign, hours, minutes = match.groups()
    subsecond = int((fraction or "").ljust(6, "0")[:6])
    try:
        moment = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            subsecond,
            zone,
        )
        if utc:
            moment = moment.replace(tzinfo=UTC)
        elif sign:
            offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
            moment = moment.replace(tzinfo=timezone(offset if sign == "+" else -offset))
        micros = (moment - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None
    # as in Arrow, the years 1 to 9999 of a time with an offset are those of UTC
    return micros if not sign or _FIRST <= micros <= _LAST else None

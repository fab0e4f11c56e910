"""Thrift's compact protocol, as Parquet writes its footer and page headers: structs by field number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

_MAX_DEPTH = 16
"""Maximum number of structures within each other."""
_STOP = 0
_TRUE, _FALSE, _I8, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_MAX_BITS = 70
"""Maximum bits of a number, in groups of seven."""


class ThriftError(ValueError):
    """The bytes do not follow the protocol."""


def read_struct(data: Any, at: int, end: int) -> tuple[dict[int, Any], int]:
    """Reads the struct at an offset: its fields by their numbers, and the offset after it.

    Raises ``ThriftError`` if it is invalid or goes beyond ``end``.
    """
    reader = _ThriftReader(data, at, end)
    return reader.struct(0), reader.at


class _ThriftReader:
    """Reads values one after the other."""

    def __init__(self, data: Any, at: int, end: int) -> None:
        self._data = data
        self._end = end
        self.at = at

    def struct(self, depth: int) -> dict[int, Any]:
        values: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != _STOP:
            step, kind = head >> 4, head & 15
            number = number + step if step else self._signed_number()
            if kind in _INTEGERS:  # most fields
                values[number] = self._signed_number()
            elif kind in (_TRUE, _FALSE):
                values[number] = kind == _TRUE
            else:
                values[number] = self._value(kind, depth + 1)
        return values

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ThriftError("structures are nested too deeply")
        if kind == _STRUCT:
            return self.struct(depth)
        if kind == _BINARY:
            return self._text()
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _MAP:
            return self._map(depth)
        if kind in (_TRUE, _FALSE):  # an item of a list, which has a byte of its own
            return self._byte() == _TRUE
        if kind not in self._SIMPLE:
            raise ThriftError("a value has an unknown type")
        return self._SIMPLE[kind](self)

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        size, kind = head >> 4, head & 15
        size = self._number() if size == 15 else size
        if size > self._end - self.at:  # each item takes a byte at least
            raise ThriftError("a list is longer than the bytes that remain")
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _map(self, depth: int) -> list[tuple[Any, Any]]:
        size = self._number()
        if size > self._end - self.at:
            raise ThriftError("a map is longer than the bytes that remain")
        kinds = self._byte() if size else 0
        return [
            (self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1))
            for _ in range(size)
        ]

    def _byte(self) -> int:
        if self.at >= self._end:
            raise ThriftError("it ends too early")
        value: int = self._data[self.at]
        self.at += 1
        return value

    def _bytes(self, size: int) -> bytes:
        if size > self._end - self.at:
            raise ThriftError("a text is longer than the bytes that remain")
        self.at += size
        text: bytes = self._data[self.at - size : self.at]
        return text

    def _number(self) -> int:
        if self.at < self._end and (value := self._data[self.at]) < 128:
            self.at += 1
            return int(value)
        value = shift = 0
        while shift < _MAX_BITS:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ThriftError("a number does not end")

    def _signed_number(self) -> int:
        value = self._number()
        return value >> 1 ^ -(value & 1)

    def _double(self) -> bytes:
        return self._bytes(8)

    def _text(self) -> bytes:
        return self._bytes(self._number())

    # functions, not bound methods, which would make each reader a cycle: it would wait for the collector
    _SIMPLE: ClassVar[Mapping[int, Callable[[_ThriftReader], Any]]] = {
        _I8: _byte,
        _DOUBLE: _double,
        _BINARY: _text,
        **dict.fromkeys(_INTEGERS, _signed_number),
    }

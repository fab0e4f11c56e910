"""Decodes envelopes and records to elements of the queue: completion codes, owners, names, flags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.formats.table_queue.calls import (
    NO_RECORD,
    SAMPLE_SCHEMA,
    CallEnvelope,
    CallProblem,
    SampleBlock,
    UnusablePiece,
)
from publisher.formats.table_queue.code_pages import TableName, code_page_of
from publisher.formats.table_queue.layout import columns_of, dirr_out
from publisher.formats.table_queue.options import NORMAL, TableQueueOptions

_CACHED_NAMES = 100_000
_SHOWN = 4096


class _Element(NamedTuple):
    """The columns of a call that depend on its record or its completion code."""

    completion: str | None = None
    owner: int | None = None
    table: str | None = None
    updated: int | None = None
    warning: str | None = None
    problem: str | None = None
    detail: str | None = None
    raw: str | None = None


class SampleDecoder:
    """Decodes the calls of a file to rows of ``SAMPLE_SCHEMA``."""

    def __init__(self, options: TableQueueOptions) -> None:
        self._options = options
        self._numbers = options.numbers()
        self._layout = columns_of(dirr_out(options))
        self.record_bytes: int = self._layout.itemsize
        """Bytes of DIRR_OUT according to the settings."""
        self._completion = lru_cache(maxsize=1000)(self._decode_completion)
        self._name = lru_cache(maxsize=_CACHED_NAMES)(self._decode_name)

    def batch(self, file: str, block: SampleBlock) -> pa.RecordBatch:
        """Builds a batch of ``SAMPLE_SCHEMA``: every call of the block once, then the unusable pieces."""
        elements, unusable = self._elements(block), block.unusable
        of_calls = {
            **_columns(_OF_ENVELOPES, block.envelopes),
            **_columns(_Element._fields, elements),
        }
        of_unusable = {
            **_columns(UnusablePiece._fields, unusable),
            "node": [""] * len(unusable),
        }
        missing = [None] * len(unusable)
        arrays = [pa.array([file] * (len(elements) + len(unusable)), pa.string())]
        for field in list(SAMPLE_SCHEMA)[1:]:
            values = [*of_calls[field.name], *of_unusable.get(field.name, missing)]
            arrays.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=SAMPLE_SCHEMA)

    def _elements(self, block: SampleBlock) -> list[_Element]:
        fields: Iterable[tuple[int, bytes, int]] = repeat((0, b"", 0))
        if block.records is not None and block.records.shape[1] >= self.record_bytes:
            octets = np.ascontiguousarray(block.records[:, : self.record_bytes])
            records = octets.view(self._layout)[:, 0]
            data, width = records["table"].tobytes(), records["table"].shape[1]
            names = [data[at : at + width] for at in range(0, len(data), width)]
            fields = zip(records["owner"].tolist(), names, records["updated"].tolist(), strict=True)
        calls = zip(block.envelopes, block.lengths, fields, strict=False)
        return [
            self._element(block, row, envelope, length, record)
            for row, (envelope, length, record) in enumerate(calls)
        ]

    def _element(
        self,
        block: SampleBlock,
        row: int,
        envelope: CallEnvelope,
        length: int,
        record: tuple[int, bytes, int],
    ) -> _Element:
        symbol, (owner, name, flag) = None, record
        try:
            symbol = self._completion(envelope.completion, envelope.code)
            if symbol != NORMAL:
                return _Element(symbol)
            self._check_length(length)
            table = self._name(name, envelope.code_page)
        except CallProblem as problem:
            raw = block.record(row)[: min(max(length, 0), _SHOWN)].hex()
            return _Element(symbol, problem=problem.problem, detail=str(problem), raw=raw)
        warning = "cut" if table.cut else None
        return _Element(symbol, owner, table.text, flag, "flag" if flag > 1 else warning)

    def _decode_completion(self, name: str | None, code: int | None) -> str:
        numbered = self._numbers.get(code) if code is not None else None
        symbol = name.strip().upper() if name and name.strip() else None
        if symbol is None and numbered is None:
            number = "missing" if code is None else f"{code}, which has no name here"
            raise CallProblem(
                "completion",
                f"the completion code is {number}; record its name, or set normal, smallbufkor, eorr",
            )
        contradicts = symbol != numbered and (
            numbered is not None or symbol in self._numbers.values()
        )
        if symbol is not None and code is not None and contradicts:
            raise CallProblem(
                "completion",
                f"the completion code {code} is recorded as {symbol}, which contradicts the"
                " settings; fix normal, smallbufkor, eorr",
            )
        completion = symbol or numbered
        assert completion is not None
        return completion

    def _check_length(self, length: int) -> None:
        if length == NO_RECORD:
            raise CallProblem("record", "a NORMAL call has no record; record RowBuf")
        if length != self.record_bytes:
            raise CallProblem(
                "length",
                f"the record has {length} bytes, but DIRR_OUT has {self.record_bytes} by the settings;"
                " set long_bytes and identifier_length",
            )

    def _decode_name(self, field: bytes, page: str | None) -> TableName:
        page = page or self._options.code_page
        if page is None:
            raise CallProblem("code-page", "no code page is recorded; set code_page")
        try:
            codec = code_page_of(page, self._options.byte_order)
        except ValueError as error:
            raise CallProblem("code-page", str(error)) from None
        try:
            name = codec.name(field)
        except ValueError as error:
            raise CallProblem("name", f"{error}; set the right code_page") from None
        if not name.text:
            raise CallProblem("name", "the name is empty; record the element again")
        return name


_OF_ENVELOPES = ("row", "sweep", "time", "node", "ordinal", "_", "code", "system_error", "_page")
"""Columns of the fields of an envelope; the completion code is decoded separately."""


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Sequence[Any]]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return dict(zip(names, columns, strict=True))

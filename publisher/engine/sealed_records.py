"""Seals the records of a masked run between its tasks: shuffles and sorts write them to disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from publisher.masking.masker import Masker
from publisher.model.record_schema import RECORD_SCHEMA

_PERSONAL = ("key", "old", "new", "perpetrator", "detail", "raw")
_SEALED = "raw"
"""Column that holds the sealed columns of a record."""
_PLACE = b"record"
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def seal_records(batches: Iterable[pa.RecordBatch], masker: Masker) -> Iterator[pa.RecordBatch]:
    """Replaces keys, values and raw records with sealed text."""
    for batch in batches:
        rows = zip(*(batch.column(name).to_pylist() for name in _PERSONAL), strict=True)
        sealed = [masker.seal_text(_JSON(row), _PLACE) for row in rows]
        nulls = dict.fromkeys(_PERSONAL, [None] * batch.num_rows)
        yield replace_columns(batch, {**nulls, _SEALED: sealed})


def unseal_records(batches: Iterable[pa.RecordBatch], masker: Masker) -> Iterator[pa.RecordBatch]:
    """Restores the records that ``seal_records`` has sealed."""
    for batch in batches:
        sealed = batch.column(_SEALED).to_pylist()
        rows = [json.loads(masker.unseal_text(text, _PLACE)) for text in sealed]
        columns = {name: [row[place] for row in rows] for place, name in enumerate(_PERSONAL)}
        yield replace_columns(batch, columns)


def replace_columns(batch: pa.RecordBatch, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Replaces columns of a batch of ``RECORD_SCHEMA`` by arrays or lists of values."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else batch[field.name]
        for field in RECORD_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)

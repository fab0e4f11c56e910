"""Parquet tables of one value that is repeated."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.support.event_log_files import NAMES, event

MIB = 1 << 20


def rows_of(value: str, count: int) -> pa.Table:
    row = event(new_value=None)
    columns: dict[str, Any] = {
        name: pa.array([None if row[name] is None else str(row[name])] * count, pa.string())
        for name in NAMES
    }
    columns["record_id"] = pa.array([str(i + 1) for i in range(count)])
    columns["new_value"] = pa.DictionaryArray.from_arrays(
        pa.array([0] * count, pa.int32()), pa.array([value])
    )
    return pa.table(columns)

"""Records between the tasks of masked runs are sealed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from publisher.engine.sealed_records import seal_records, unseal_records
from publisher.errors import FatalError
from publisher.masking.masker import Masker
from publisher.masking.options import MaskingOptions
from publisher.model.record_schema import RECORD_SCHEMA
from tests.support.event_log_files import csv_text, event, read
from tests.support.planted_values import PlantedValues

KEY = "pvmaskingkey" * 3


def test_sealed_records_show_nothing(tmp_path: Path) -> None:
    planted = PlantedValues()
    rows = [
        event(number, table_key=f"idu={planted.number()}", new_value=planted.text())
        | {"perpetrator": planted.text(), "event_type": 2 if number % 2 else planted.text()}
        for number in range(1, 21)
    ]
    path = tmp_path / "log.csv"
    path.write_text(csv_text(rows))
    masker = Masker(MaskingOptions(), KEY.encode())
    records, _ = read(path)
    batches = [pa.RecordBatch.from_pylist(records, RECORD_SCHEMA)]
    sealed = list(seal_records(batches, masker))
    assert len(planted.find_in(repr([batch.to_pylist() for batch in batches]))) > 50
    assert planted.find_in(repr([batch.to_pylist() for batch in sealed])) == set()
    restored = pa.Table.from_batches(unseal_records(sealed, masker))
    assert restored.equals(pa.Table.from_batches(batches))
    with pytest.raises(FatalError, match="another masking key"):
        list(unseal_records(sealed, Masker(MaskingOptions(), b"x" * 32)))

"""Documents of the program are valid by the strict profile, whatever the values are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.model.catalogue import ColumnKind
from publisher.xds.document import Envelope, EnvelopeOptions, operation
from publisher.xds.operations import InsertQueryBack
from publisher.xds.validate import validate_files
from publisher.xds.values import ValueOptions, Values, text_of
from tests.support.event_meanings import MEANINGS

TEXT = st.text(st.characters(codec="utf-8"), max_size=10)
NAME = TEXT.filter(str.isprintable)
TEXTS: dict[ColumnKind | None, st.SearchStrategy[str | None]] = {
    None: TEXT,
    ColumnKind.STRING: TEXT,
    ColumnKind.DECIMAL: TEXT,
    ColumnKind.OCTET: st.binary(max_size=10).map(text_of),
    ColumnKind.INT: st.integers(-(2**63), 2**63).map(text_of),
    ColumnKind.STATE: st.booleans().map(text_of),
    ColumnKind.DATE: st.dates().map(text_of),
    ColumnKind.TIME: st.times().map(text_of),
    ColumnKind.TIMESTAMP: st.datetimes().map(text_of),
}


@pytest.mark.parametrize("time_syntax", [1, 2, 3])
@given(data=st.data())
def test_a_published_document_is_valid(time_syntax: int, data: st.DataObject) -> None:
    values = Values(
        ValueOptions(forbidden="replace", time_syntax=time_syntax, time_range="any")  # type: ignore[arg-type]
    )
    event_type = data.draw(st.integers(1, 8))
    insert: InsertQueryBack = data.draw(st.sampled_from(["modify", "add"]))
    parts = []
    meaning = MEANINGS[insert][event_type]
    for column in data.draw(st.lists(st.sampled_from(list(TEXTS)), min_size=1, max_size=3)):
        element = values.converter(column)
        old, new = (element(data.draw(TEXTS[column]) or "") for _ in range(2))
        parts.append(meaning.part("a", old, new))
    options = EnvelopeOptions(product=data.draw(NAME), contact=data.draw(NAME))
    document = Envelope(options).document(
        [operation(meaning.operation, data.draw(NAME), data.draw(NAME), parts, data.draw(NAME))] * 2
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "part-00000.xds")
        path.write_bytes(f"{document}\n".encode() * 3)
        assert list(validate_files([path])) == []

"""Documents read by the column, compared with the parser of consumers."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.consumer.parse import parse_document
from publisher.verify import uniform_documents
from publisher.verify.operation_columns import OperationCollector, OperationRows
from publisher.verify.uniform_documents import read_uniform

HEAD = '<nds dtdversion="2.0"><source><product version="1">X</product><contact/></source><input>'
END = "</input></nds>"
ADD = (
    '<add class-name="usr" event-id="{id}"><association>{key}</association>'
    '<add-attr attr-name="a"><value type="string">{text}</value><value>{text}</value></add-attr>'
    '<add-attr attr-name="b"><value type="int">{number}</value></add-attr></add>'
)
MODIFY = (
    '<modify class-name="usr"><association>{key}</association><modify-attr attr-name="a">'
    "<remove-all-values/><remove-value><value>{text}</value></remove-value><add-value>"
    '<value type="dn" association-ref="{id}">{text}</value></add-value></modify-attr>'
    '<modify-attr attr-name="b"><remove-all-values/></modify-attr></modify>'
)
DELETE = '<delete class-name="usr" event-id="{id}"><association>{key}</association></delete>'
FORMS = ADD, MODIFY, DELETE
TEXTS = st.one_of(
    st.sampled_from(
        ("", "x", "é\U0001f600", "&amp;", "&#10;", "\t", "\x01", "\ufffe", "\uffc1", '"')
    ),
    st.text(max_size=4),
)
PIECES = (
    *"<>&\"'/= \x00\xff",
    "<value>",
    "</value>",
    "<!-- x -->",
    "<![CDATA[x]]>",
    "<?x y?>",
    "<input>",
    "<association>k</association>",
    ' event-id="y"',
    ' association-ref="y"',
    "]]>",
)
"""Pieces that are put somewhere into a document."""

Document = tuple[bytes, str]
"""A document, and the association under which it is stored."""
Read = tuple[int, str, list[tuple[str, int, str | None]]]
"""An operation: its kind, its object and its changes."""


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    """Documents of few forms, of which some are damaged."""
    drawn = []
    for number in range(draw(st.integers(4, 24))):
        key = f"idu={number % 5},table=usr{draw(TEXTS)}"
        values = {
            "id": draw(st.one_of(st.just(f"s:{number}"), TEXTS)),
            "text": draw(TEXTS),
            "number": draw(st.sampled_from(("1", "-20", "x", "", "9" * 30))),
        }
        content = draw(st.sampled_from(FORMS)).format(key=key, **values)
        data = f"{HEAD}{content}{END}".encode("utf-8", "replace")
        if draw(st.integers(0, 3)) == 0:
            low = draw(st.integers(0, len(data)))
            high = low + draw(st.integers(0, 3))
            data = data[:low] + draw(st.sampled_from(PIECES)).encode("latin-1") + data[high:]
        drawn.append((data, key))
    return drawn


def read(batch: Iterable[Document]) -> dict[int, list[Read]]:
    """The operations of the documents that are read by the column."""
    data, keys = zip(*batch, strict=True)
    columns = pa.array([b"x", *data], pa.binary())[1:], pa.array(keys, pa.string())
    operations: dict[int, list[Read]] = {}
    for rows in read_uniform(*columns):
        operations |= operations_of(rows)
    return operations


def operations_of(rows: OperationRows) -> dict[int, list[Read]]:
    """The operations of each document with their changes."""
    names = zip(rows.attributes.to_pylist(), rows.changes, rows.elements.to_pylist(), strict=True)
    operations: dict[int, list[Read]] = {}
    for document, kind, name, size in zip(
        rows.documents.tolist(), rows.kinds, rows.associations.to_pylist(), rows.sizes, strict=True
    ):
        changes = [next(names) for _ in range(size)]
        operations.setdefault(document, []).append((kind, name, changes))
    assert next(names, None) is None
    return operations


def parsed(data: bytes) -> list[Read]:
    collector = OperationCollector()
    collector.add(0, parse_document(data))
    return operations_of(collector.rows())[0]


@given(documents())
def test_documents_are_read_as_consumers_read_them(batch: list[Document]) -> None:
    for place, operations in read(batch).items():
        data, key = batch[place]
        assert operations == parsed(data)
        assert [operation[1] for operation in operations] == [key]


def document(form: str, key: str = "idu=1,table=usr", head: str = HEAD, **values: str) -> Document:
    values = {"id": "s:1", "text": "Jack", "number": "1"} | values
    return f"{head}{form.format(key=key, **values)}{END}".encode(), key


@pytest.mark.parametrize("form", FORMS)
def test_all_documents_of_one_form_are_read(form: str) -> None:
    batch = [
        document(form, f"idu={n},table=usr", id=f"s:{n}", text=f"é{n}"[: n % 4], number=f"-{n}")
        for n in range(40)
    ]
    assert [*read(batch)] == [*range(40)]
    mixed = [document(each, f"idu={n},table=usr") for n in range(40) for each in FORMS]
    assert sorted(read(mixed)) == [*range(len(mixed))]


@pytest.mark.parametrize(
    "odd",
    [
        document(ADD, text="a&lt;"),
        document(ADD, text="\ufffe"),
        document(ADD, text="\x01"),
        document(ADD, number="1x"),
        document(ADD, key=""),
        document(ADD, id=""),
        document(ADD, text="<!-- -->"),
        (document(ADD)[0], "idu=2,table=usr"),
        (b" " + document(ADD)[0], "idu=1,table=usr"),
        (b"", ""),
        (b"{}", ""),
        (b">" + document(ADD)[0] + b"<", "idu=1,table=usr"),
    ],
)
def test_other_documents_are_left(odd: Document) -> None:
    usual = [document(ADD)] * 8
    assert [*read([*usual, odd])] == [*range(8)]
    assert 0 not in read([odd, *usual])


def test_the_text_before_the_operation_is_that_of_the_first_document() -> None:
    usual, odd = [document(ADD)] * 8, document(ADD, head=HEAD.replace(">X<", ">Y<"))
    assert [*read([*usual, odd])] == [*range(8)]
    assert [*read([odd, *usual])] == [0]


def test_documents_are_left_that_are_not_stored_under_an_association() -> None:
    data = [document(DELETE)[0]] * 8
    keys = ["idu=1,table=usr"] * 7 + [None]
    (rows,) = read_uniform(pa.array(data), pa.array(keys, pa.string()))
    assert rows.documents.tolist() == [*range(7)]


def test_documents_that_are_not_utf_8_are_left() -> None:
    usual, key = document(DELETE)
    assert read([(usual, key)] * 8 + [(b"\xff", "")]) == {}


def test_forms_with_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uniform_documents, "_FACTORS", uniform_documents._FACTORS * 0)
    batch = [document(FORMS[n % 3], f"idu={n},table=usr") for n in range(30)]
    for place, operations in read(batch).items():
        assert operations == parsed(batch[place][0])

"""The declared row against hex typed by hand, and bulk reading against the declaration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows import layout
from publisher.formats.dispatch_queue.rows.layout import ByteOrder
from publisher.formats.dispatch_queue.rows.rows import binary_rows

# the table of the reference: offset, content
HEAD = {
    0: "3F F3 63 00 80 00",  # OPER_DATE: 2024-01-01 00:00:00.5, the high bytes first
    6: "01 00",  # EXTDATA 1
    8: "4D 41 49 4E 20 20 20 20",  # DBNODE "MAIN    "
    16: "39 30 00 00 00 00 00 00",  # TRANSACT_ID 12345
    24: "10 27 00 00 03 00 00 00",  # SYSLOG_ADDR: file 3, address 10000
    32: "03 00",  # TYP 3, UPDATE
    34: "04 FF",  # BLOBATR: column 4, type 255
    36: "05 00 00 00",  # CHANNEL 5
    40: "07 00 00 00",  # TABNUM_SRC 7
    44: "FF FF FF FF",  # ROWID_SRC -1
    48: "02 00 00 00",  # LEN1 2
    52: "01 00 00 00",  # LEN2 1
    56: "53 52 56 31 20 20 20 20",  # DST_SERVER "SRV1    "
    64: "49 44 4D" + "20" * 63,  # DST_OWNER "IDM", 66 bytes
    130: "55 53 52" + "20" * 63,  # DST_TABLE "USR", 66 bytes
    196: "AA BB CC",  # DATA, then filler
}


def typed_row(stride: int = 3596) -> bytes:
    row = bytearray(stride)
    for at, text in HEAD.items():
        data = bytes.fromhex(text)
        row[at : at + len(data)] = data
    return bytes(row)


def test_the_declaration_reads_the_typed_row() -> None:
    assert layout.row().sizeof() == layout.ROW_BYTES == 3596
    found = layout.row().parse(typed_row())
    assert found.OPER_DATE.seconds == 0x3FF36300
    assert found.OPER_DATE.fraction == 0x8000
    assert (found.EXTDATA, found.TRANSACT_ID, found.TYP) == (1, 12345, 3)
    assert found.SYSLOG_ADDR == (3 << 32) + 10000
    assert (found.BLOBATR, found.CHANNEL, found.TABNUM_SRC, found.ROWID_SRC) == (-252, 5, 7, -1)
    assert (found.LEN1, found.LEN2) == (2, 1)
    assert (found.DBNODE, found.DST_OWNER[:5]) == (b"MAIN    ", b"IDM  ")
    assert found.DATA[:4] == b"\xaa\xbb\xcc\0"


@pytest.mark.parametrize("stride", layout.STRIDES)
def test_the_typed_row_is_read_in_bulk(stride: int) -> None:
    data = np.frombuffer(typed_row(stride) * 3, np.uint8)
    rows = binary_rows(data, 0, len(data), stride, DispatchQueueOptions(), 1)
    assert len(rows) == 3
    assert not rows.broken
    assert rows.nodes == ("MAIN",)
    assert rows.destinations == (("SRV1", "IDM", "USR"),)
    assert rows.integers["BLOBATR"].tolist() == [0xFF04] * 3
    assert rows.address.tolist() == [(3 << 32) + 10000] * 3
    assert rows.data[rows.data_at[2] : rows.data_at[2] + 3].tobytes() == b"\xaa\xbb\xcc"


orders = st.sampled_from(["little", "big"])


@given(
    data=st.lists(st.binary(min_size=196, max_size=196), min_size=1, max_size=3),
    order=orders,
    stride=st.sampled_from(layout.STRIDES),
)
def test_bulk_reading_is_that_of_the_declaration(
    data: list[bytes], order: ByteOrder, stride: int
) -> None:
    file = b"".join(head.ljust(stride, b"\0") for head in data)
    options = DispatchQueueOptions(byte_order=order, charset="latin-1")
    rows = binary_rows(np.frombuffer(file, np.uint8), 0, len(file), stride, options, 1)
    for number in range(len(data)):
        at = number * stride
        declared = layout.row(order).parse(file[at : at + layout.ROW_BYTES])
        assert rows.seconds[number] == declared.OPER_DATE.seconds
        assert rows.fractions[number] == declared.OPER_DATE.fraction
        for name in layout.INTEGERS:
            mask = 0xFFFF if name == "BLOBATR" else -1
            assert rows.integers[name][number] == declared[name] & mask, name
        texts = [declared[name].rstrip(b" \0").decode("latin-1") for name in layout.TEXTS]
        texts = [text.replace("\0", "\\x00") for text in texts]
        found = (rows.nodes[rows.node[number]], *rows.destinations[rows.destination[number]])
        assert list(found) == texts


@given(st.binary(min_size=layout.ROW_BYTES, max_size=layout.ROW_BYTES))
def test_a_row_is_built_as_it_was_parsed(data: bytes) -> None:
    assert layout.row().build(layout.row().parse(data)) == data

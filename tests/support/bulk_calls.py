"""Bulk files of samples as a recorder writes them."""

from __future__ import annotations

from publisher.formats.table_queue.bulk_calls import BulkHeader
from publisher.formats.table_queue.calls import Call, to_micros
from publisher.formats.table_queue.layout import (
    BULK_CALL,
    BULK_HEADER,
    CODE,
    COMPLETIONS,
    RECORD,
    SYSTEM_ERROR,
    VERSION,
)


class BulkFile(BulkHeader):
    """Builds the bytes of a file."""

    def build(self) -> bytes:
        node, page = self.node.encode(), (self.code_page or "").encode("ascii")
        if len(node) > 16 or len(page) > 32 or not 0 < self.record_bytes < (1 << 16):
            raise ValueError(
                "the limits are 16 bytes for node, 32 for code_page, 1 to 65535 for a record; shorten them"
            )
        header: bytes = BULK_HEADER.build(
            {
                "version": VERSION,
                "record_bytes": self.record_bytes,
                "node": node.ljust(16, b"\0"),
                "code_page": page.ljust(32, b"\0"),
            }
        )
        return header

    def build_call(self, call: Call) -> bytes:
        record, page = call.record or b"", call.code_page or self.code_page
        if (call.node, page) != (self.node, self.code_page) or len(record) > self.record_bytes:
            raise ValueError(
                "the call has another node, code page or record size than the file; write it to another file"
            )
        symbol = call.completion if call.completion in COMPLETIONS else None
        if symbol is None and call.code is None:
            raise ValueError(f"completion {call.completion} has no number; record its number")
        present = CODE * (call.code is not None) | RECORD * (call.record is not None)
        envelope: bytes = BULK_CALL.build(
            {
                "sweep": call.sweep,
                "time": to_micros(call.time),
                "ordinal": call.ordinal,
                "code": call.code or 0,
                "system_error": call.system_error or 0,
                "length": len(record),
                "completion": COMPLETIONS.index(symbol),
                "known": present | SYSTEM_ERROR * (call.system_error is not None),
            }
        )
        return envelope + record.ljust(self.record_bytes, b"\0")

"""Corrected records of extraction files as files of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from publisher.errors import FatalError, UsageError
from publisher.formats.linkexpress import layout
from publisher.formats.linkexpress.file_probe import recognise_file
from publisher.formats.linkexpress.options import ByteOrder, LinkexpressOptions
from publisher.formats.retry import (
    CorrectedRecord,
    RetryFiles,
    octets_of,
    write_octets,
    write_private,
)
from publisher.planning.torn_transactions import TransactionKey


def write_retry(
    options: LinkexpressOptions, records: Sequence[CorrectedRecord], folder: Path
) -> RetryFiles:
    """Joins the bytes of records; a commit record follows those of each transaction of a group.

    Raises:
        UsageError: The bytes of a record are missing, or fit the settings in no byte order.
    """
    if all(record.transaction is None for record in records):
        return write_octets(records, folder)
    transactions: defaultdict[TransactionKey | None, list[tuple[str, bytes]]] = defaultdict(list)
    for record in records:
        transactions[record.transaction].append((record.id, octets_of(record)))
    group = b"".join(data for members in transactions.values() for _, data in members)
    form = layout.form_of(options)
    mark = layout.mark(form, _byte_order(options, group, records[0].where)).build(
        {
            "length": form.mark_size,
            "count": 1,
            "flag": layout.NOT_NULL,
            "operation": layout.ExtractCode.COMMIT,
        }
    )
    path = folder / f"group.{folder.parent.name}.dat"
    content = bytearray()
    offsets: dict[str, int] = {}
    for members in transactions.values():
        for name, data in members:
            offsets[name] = len(content)
            content += data
        content += mark
    write_private(path, content)
    return RetryFiles((path,), tuple((path, offsets[record.id]) for record in records))


def _byte_order(options: LinkexpressOptions, content: bytes, where: str) -> ByteOrder:
    try:
        return recognise_file(options, np.frombuffer(content, np.uint8), where).order
    except FatalError as error:
        raise UsageError(error.message) from None

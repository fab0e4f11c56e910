"""Decodes the images of a block of operations, table by table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from publisher.formats.columns.byte_areas import Bytes, Offsets
from publisher.formats.columns.key_texts import ColumnKeys
from publisher.formats.columns.object_names import RecordFault
from publisher.formats.dispatch_queue.images.decode import DecodedImages
from publisher.formats.dispatch_queue.object_names import QueueNames, QueueTableNames
from publisher.formats.dispatch_queue.operations import (
    BLOB_TYPES,
    Operations,
    OperationUse,
    RowKind,
)
from publisher.formats.dispatch_queue.rows.layout import OperationCode
from publisher.formats.dispatch_queue.rows.rows import Codes, Destination
from publisher.model.change import Reason

BLOCK = 8192
"""Number of operations to decode at once."""


@dataclass(slots=True, eq=False)
class DecodedTable:
    """Operations of one table, with their images as columns."""

    names: QueueTableNames
    numbers: Codes
    """Places of the operations in ``Operations``."""
    types: Codes
    """TYP of each operation."""
    texts: list[pa.Array]
    """By column: values of the first images of all operations, then of the second images of UPDATEs."""
    second: Codes
    """Place of the second image of each operation, or -1."""
    keys: pa.Array
    """Keys of the images, in the order of ``texts``."""
    faults: dict[int, RecordFault]
    """By place in ``numbers``."""


def decode_tables(
    operations: Operations, numbers: Codes, names: QueueNames
) -> Iterator[DecodedTable]:
    """Decodes, by table, those operations of ``numbers`` that have images and no faults.

    Operations on unknown tables get a fault."""
    chosen = _with_images(operations, numbers)
    for members, node, number, where in tables_of(operations, chosen, names):
        if names.depends_on_destination(node, number) and not where.table:
            operations.add_fault(
                members.tolist(),
                Reason.TABLE_NAME,
                f"DST_TABLE is blank; give table {number} a name in [[sources.tables]]",
            )
            continue
        table_names = names.of(node, number, where)
        if table_names is None:
            operations.add_fault(
                members.tolist(),
                Reason.ROW_IMAGE,
                f"the columns of table {number} are unknown; name a DISPATCH_ATTRS export with"
                " attributes, or describe the table in [[sources.tables]]",
            )
        else:
            yield _decode(operations, members, table_names)


def tables_of(
    operations: Operations, chosen: Codes, names: QueueNames
) -> Iterator[tuple[Codes, str, int, Destination]]:
    """Groups operations by table; yields operations, database, number of the table, and a destination.

    If the table's name depends on the destination, all operations of a group have that destination."""
    tables = operations.column("TABNUM_SRC")[chosen]
    nodes = operations.node[chosen]
    destination = operations.rows.destination[operations.first[chosen]]
    # ``unique`` of pairs would take a sixth of the time of reading
    pairs = [
        (number, code)
        for number in np.unique(tables).tolist()
        for code in np.unique(nodes[tables == number]).tolist()
    ]
    for number, code in pairs:
        is_of_table = (tables == number) & (nodes == code)
        node = operations.rows.nodes[code]
        members, targets = chosen[is_of_table], destination[is_of_table]
        depends = names.depends_on_destination(node, number)
        for where in (np.unique(targets) if depends else targets[:1]).tolist():
            group = members[targets == where] if depends else members
            yield group, node, number, operations.rows.destinations[where]


def _with_images(operations: Operations, numbers: Codes) -> Codes:
    usable = (operations.kind[numbers] == RowKind.OPERATION) & (
        operations.use[numbers] == OperationUse.COUNTED
    )
    usable &= ~operations.ignored[numbers]
    if operations.faults:
        usable &= ~np.isin(numbers, list(operations.faults))
    chosen: Codes = numbers[usable]
    return chosen


def _decode(operations: Operations, numbers: Codes, names: QueueTableNames) -> DecodedTable:
    types = operations.column("TYP")[numbers]
    double = np.flatnonzero(types == OperationCode.UPDATE)
    count = len(numbers)
    second = np.full(count, -1, np.int64)
    second[double] = count + np.arange(len(double))
    images = _read_images(operations, numbers, double, names)
    keys = names.keys(images.texts)
    table = DecodedTable(names, numbers, types, images.texts, second, keys.texts, {})
    _add_faults(table, images, keys, double)
    _check_blobs(table, operations)
    return table


def _read_images(
    operations: Operations, numbers: Codes, double: Codes, names: QueueTableNames
) -> DecodedImages:
    """Reads first and second images: in place if all operations have one row, else from a copy."""
    lengths = np.concatenate([operations.len1[numbers], operations.len2[numbers[double]]])
    if not (operations.parts[numbers] > 1).any():
        starts = operations.rows.data_at[operations.first[numbers]]
        seconds = starts[double] + operations.len1[numbers[double]]
        at = np.concatenate([starts, seconds])
        return names.reader.read(operations.rows.data, at, lengths)
    data, at = _join_images(operations, numbers, double)
    return names.reader.read(data, at, lengths)


def _join_images(operations: Operations, numbers: Codes, double: Codes) -> tuple[Bytes, Offsets]:
    """Copies all images into one area and returns it with their offsets."""
    pairs = [operations.segments(number) for number in numbers.tolist()]
    images = [operations.image(first) for first, _ in pairs]
    images += [operations.image(pairs[place][1]) for place in double.tolist()]
    sizes = np.array([len(image) for image in images], np.int64)
    data = np.frombuffer(b"".join(images), np.uint8)
    return data, np.cumsum(sizes) - sizes


def _add_faults(
    table: DecodedTable, images: DecodedImages, keys: ColumnKeys, double: Codes
) -> None:
    count = len(table.numbers)
    for reason, faults in ((Reason.ROW_IMAGE, images.problems), (Reason.TABLE_KEY, keys.problems)):
        for image, detail in faults.items():
            place, which = (image, "first") if image < count else (image - count, "second")
            place = place if which == "first" else int(double[place])
            table.faults.setdefault(place, RecordFault(reason, f"{which} image: {detail}"))


def _check_blobs(table: DecodedTable, operations: Operations) -> None:
    """Checks that the low byte of BLOBATR, documented as a column number, names a column of the table."""
    for place in np.flatnonzero(np.isin(table.types, list(BLOB_TYPES))).tolist():
        number = int(operations.column("BLOBATR")[table.numbers[place]]) & 0xFF
        if number not in table.names.numbers:
            detail = (
                f"BLOBATR names column {number}, which {table.names.table} does not have; fix the"
                " columns of the table or their numbers"
            )
            table.faults.setdefault(place, RecordFault(Reason.ROW_IMAGE, detail))

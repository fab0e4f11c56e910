"""The images of a block of operations, decoded table by table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from publisher.model.change import Reason
from publisher.sources.columns.byte_areas import Bytes, Offsets
from publisher.sources.dispatch_queue.images.decode import Images
from publisher.sources.dispatch_queue.object_names import AllNames, Keys, TableNames
from publisher.sources.dispatch_queue.operations import (
    ALONE,
    BLOB_TYPES,
    OPERATION,
    Fault,
    Operations,
)
from publisher.sources.dispatch_queue.rows import layout
from publisher.sources.dispatch_queue.rows.rows import Codes, Destination

BLOCK = 8192
"""Operations that are decoded at once."""


@dataclass(slots=True, eq=False)
class Decoded:
    """Operations of one table, with their images as columns."""

    names: TableNames
    numbers: Codes
    """Which operations, by their place in ``Operations``."""
    types: Codes
    """TYP."""
    texts: list[pa.Array]
    """By column: the first images of all, then the second ones of those that have one."""
    second: Codes
    """Where the second image of each is; -1 where it has none."""
    keys: pa.Array
    """By image as ``texts``."""
    faults: dict[int, Fault]
    """By place in ``numbers``."""


def decoded(operations: Operations, numbers: Codes, names: AllNames) -> Iterator[Decoded]:
    """The operations among ``numbers`` that have images and no fault, by table; those of tables that
    are not known get their fault."""
    chosen = _with_images(operations, numbers)
    for mine, node, number, where in tables_of(operations, chosen, names):
        if names.depends_on_destination(node, number) and not where.table:
            operations.fault(
                mine.tolist(),
                Reason.TABLE_NAME,
                f"DST_TABLE is blank; give table {number} a name in [[sources.tables]]",
            )
            continue
        found = names.of(node, number, where)
        if found is None:
            operations.fault(
                mine.tolist(),
                Reason.ROW_IMAGE,
                f"the columns of table {number} are not known; name a DISPATCH_ATTRS export with"
                " attributes, or describe the table in [[sources.tables]]",
            )
        else:
            yield _decoded(operations, mine, found)


def tables_of(
    operations: Operations, chosen: Codes, names: AllNames
) -> Iterator[tuple[Codes, str, int, Destination]]:
    """Operations by table: which, database and number of the table, and the destination, which is
    that of all of them where the table's name depends on it."""
    tables = operations.column("TABNUM_SRC")[chosen]
    nodes = operations.node[chosen]
    destination = operations.rows.destination[operations.first[chosen]]
    pairs = np.unique(np.stack([tables, nodes], axis=1), axis=0)
    for number, code in pairs.tolist():
        is_of_table = (tables == number) & (nodes == code)
        node = operations.rows.nodes[code]
        mine, named = chosen[is_of_table], destination[is_of_table]
        depends = names.depends_on_destination(node, number)
        for where in (np.unique(named) if depends else named[:1]).tolist():
            of_one = mine[named == where] if depends else mine
            yield of_one, node, number, operations.rows.destinations[where]


def _with_images(operations: Operations, numbers: Codes) -> Codes:
    good = (operations.kind[numbers] == OPERATION) & (operations.counted[numbers] == ALONE)
    good &= ~operations.ignored[numbers]
    if operations.faults:
        good &= ~np.isin(numbers, list(operations.faults))
    chosen: Codes = numbers[good]
    return chosen


def _decoded(operations: Operations, numbers: Codes, names: TableNames) -> Decoded:
    types = operations.column("TYP")[numbers]
    double = np.flatnonzero(types == layout.UPDATE)
    count = len(numbers)
    second = np.full(count, -1, np.int64)
    second[double] = count + np.arange(len(double))
    images = _read(operations, numbers, double, names)
    keys = names.keys(images.texts)
    made = Decoded(names, numbers, types, images.texts, second, keys.texts, {})
    _take_faults(made, images, keys, double)
    _check_blobs(made, operations)
    return made


def _read(operations: Operations, numbers: Codes, double: Codes, names: TableNames) -> Images:
    """First images of all, second ones of some: in place where they lie in one row, else joined."""
    lengths = np.concatenate([operations.len1[numbers], operations.len2[numbers[double]]])
    joined = operations.parts[numbers] > 1
    if not joined.any():
        starts = operations.rows.data_at[operations.first[numbers]]
        seconds = starts[double] + operations.len1[numbers[double]]
        at = np.concatenate([starts, seconds])
        return names.reader.read(operations.rows.data, at, lengths)
    data, at = _joined(operations, numbers, double)
    return names.reader.read(data, at, lengths)


def _joined(operations: Operations, numbers: Codes, double: Codes) -> tuple[Bytes, Offsets]:
    """All images one after the other."""
    ones, twos = [], []
    pairs = [operations.segments(number) for number in numbers.tolist()]
    ones = [operations.image(one) for one, _ in pairs]
    twos = [operations.image(pairs[place][1]) for place in double.tolist()]
    sizes = np.array([len(image) for image in (*ones, *twos)], np.int64)
    data = np.frombuffer(b"".join((*ones, *twos)), np.uint8)
    return data, np.cumsum(sizes) - sizes


def _take_faults(made: Decoded, images: Images, keys: Keys, double: Codes) -> None:
    count = len(made.numbers)
    for reason, faults in ((Reason.ROW_IMAGE, images.faults), (Reason.TABLE_KEY, keys.problems)):
        for image, detail in faults.items():
            place, which = (image, "first") if image < count else (image - count, "second")
            place = place if which == "first" else int(double[place])
            made.faults.setdefault(place, Fault(reason, f"{which} image: {detail}"))


def _check_blobs(made: Decoded, operations: Operations) -> None:
    """BLOBATR names a column of the table in its low byte [D]."""
    for place in np.flatnonzero(np.isin(made.types, list(BLOB_TYPES))).tolist():
        number = int(operations.column("BLOBATR")[made.numbers[place]]) & 0xFF
        if number not in made.names.numbers:
            detail = (
                f"BLOBATR names column {number}, which {made.names.table} has not; mend its columns"
                " or their numbers"
            )
            made.faults.setdefault(place, Fault(Reason.ROW_IMAGE, detail))

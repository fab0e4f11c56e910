"""Operations that are published and may not be what they seem; people are told of them.

By the reference, section 1.3: two images of a row fill three parts at the most, so more are odd; and
where each part says only its own lengths, an operation whose last part is full may have lost the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa

from publisher.sources.dispatch_queue.operations import ALONE, OPERATION, Operations
from publisher.sources.dispatch_queue.rows.layout import DATA_BYTES
from publisher.sources.dispatch_queue.transactions.facts import (
    DOUBTED,
    FACTS,
    address_text,
    of_kind,
    other_facts,
)

EXPECTED_PARTS = 3
_MANY = (
    f"have more than {EXPECTED_PARTS} parts, which is more than two images of a row should need:"
    " look whether the images are whole"
)
_FULL = (
    "end with a part that is full to its last byte, and nothing in the queue tells whether one more"
    " belongs to it: compare them with the table"
)
_SAID = (_MANY, _FULL)
"""What is said of the operations, by the number of the doubt."""


def doubted(operations: Operations, faults: Collection[int]) -> pa.RecordBatch:
    """Facts: for each doubt and database how many operations, and the address of the first.
    ``faults`` are the numbers of those that are rejected anyway."""
    lengths = operations.rows.integers
    sizes = lengths["LEN1"] + lengths["LEN2"]
    last, parts = operations.first.copy(), np.ones(len(operations), np.int64)
    for number in np.flatnonzero(operations.group >= 0).tolist():
        members = operations.rows_of(number)
        last[number], parts[number] = members[-1], len(members)
    usable = (operations.kind == OPERATION) & (operations.counted == ALONE)
    usable[list(faults)] = False
    usable &= ~operations.ignored
    many = usable & (parts > EXPECTED_PARTS)
    full = usable & (sizes[last] == DATA_BYTES) & (operations.reading != "totals")
    found: list[tuple[str, int, int, int]] = []
    for doubt, which in enumerate((many, full)):
        for code in np.unique(operations.node[which]).tolist():
            mine = which & (operations.node == code)
            first = int(operations.address[mine].min())
            found.append((operations.rows.nodes[code], doubt, first, int(mine.sum())))
    names = ("node", "transaction", "first", "operations")
    return other_facts(DOUBTED, **{name: [one[n] for one in found] for n, name in enumerate(names)})


def doubts(facts: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """What is to be said, from the facts of all parts."""
    rows = pa.Table.from_batches([of_kind(part, DOUBTED) for part in facts], FACTS)
    grouped = rows.group_by(["transaction", "node"]).aggregate(
        [("operations", "sum"), ("first", "min")]
    )
    for one in grouped.sort_by([("transaction", "ascending"), ("node", "ascending")]).to_pylist():
        yield (
            f"{one['operations_sum']:,} operation(s) of {one['node']}, the first at"
            f" {address_text(one['first_min'])}, {_SAID[one['transaction']]}"
        )

"""Warnings about suspicious operations that are nevertheless published.

Two images of a row need at most three parts, so more parts are suspicious.  If LEN1 and LEN2 of each part
give only the lengths of this part, nothing shows the number of parts: an operation whose last part is full
may lack another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa

from publisher.sources.dispatch_queue.operations import Operations, OperationUse, RowKind
from publisher.sources.dispatch_queue.rows.layout import DATA_BYTES
from publisher.sources.dispatch_queue.transactions.facts import (
    FACTS,
    FactKind,
    address_text,
    of_kind,
    other_facts,
)

EXPECTED_PARTS = 3
_MANY = (
    f"have more than {EXPECTED_PARTS} parts, but two images of a row need at most {EXPECTED_PARTS}:"
    " check whether the images are complete"
)
_FULL = (
    "end with a part that is full to its last byte, and the queue does not show whether another"
    " part follows: compare them with the table"
)
_DOUBTS = (_MANY, _FULL)
"""Texts of the warnings; facts refer to them by index."""


def doubts_as_facts(operations: Operations, faults: Collection[int]) -> pa.RecordBatch:
    """Counts suspicious operations by warning and database; each fact has the address of the first one.

    ``faults``: numbers of operations that are rejected anyway."""
    lengths = operations.rows.integers
    sizes = lengths["LEN1"] + lengths["LEN2"]
    last, parts = operations.first.copy(), np.ones(len(operations), np.int64)
    for number in np.flatnonzero(operations.group >= 0).tolist():
        members = operations.rows_of(number)
        last[number], parts[number] = members[-1], len(members)
    usable = (operations.kind == RowKind.OPERATION) & (operations.use == OperationUse.COUNTED)
    usable[list(faults)] = False
    usable &= ~operations.ignored
    many = usable & (parts > EXPECTED_PARTS)
    full = usable & (sizes[last] == DATA_BYTES) & (operations.reading != "totals")
    rows: list[tuple[str, int, int, int]] = []
    for doubt, which in enumerate((many, full)):
        for code in np.unique(operations.node[which]).tolist():
            of_node = which & (operations.node == code)
            first = int(operations.address[of_node].min())
            rows.append((operations.rows.nodes[code], doubt, first, int(of_node.sum())))
    names = ("node", "transaction", "first", "operations")
    return other_facts(
        FactKind.DOUBT, **{name: [row[n] for row in rows] for n, name in enumerate(names)}
    )


def doubt_warnings(facts: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Yields warnings from the facts of all splits."""
    rows = pa.Table.from_batches([of_kind(part, FactKind.DOUBT) for part in facts], FACTS)
    grouped = rows.group_by(["transaction", "node"]).aggregate(
        [("operations", "sum"), ("first", "min")]
    )
    for row in grouped.sort_by([("transaction", "ascending"), ("node", "ascending")]).to_pylist():
        yield (
            f"{row['operations_sum']:,} operation(s) of {row['node']}, the first at"
            f" {address_text(row['first_min'])}, {_DOUBTS[row['transaction']]}"
        )

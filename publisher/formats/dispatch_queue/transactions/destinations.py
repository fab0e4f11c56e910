"""Determines the operations that count: those of the chosen databases and destinations, each once.

A table with several destinations presumably has a row for each of them.
"""

from __future__ import annotations

import numpy as np

from publisher.formats.dispatch_queue.operations import Operations, OperationUse, RowKind
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.model.change import Reason


def exclude_operations(operations: Operations, options: DispatchQueueOptions) -> None:
    """Marks operations that the settings exclude."""
    operations.use[:] = OperationUse.COUNTED
    if options.nodes:
        outside = np.array([name not in options.nodes for name in operations.rows.nodes], bool)
        if len(outside):
            operations.use[outside[operations.node]] = OperationUse.EXCLUDED
    if options.destination is not None and operations.rows.destinations:
        is_other = np.array(
            [d.server != options.destination for d in operations.rows.destinations], bool
        )
        of_other = is_other[operations.rows.destination[operations.first]]
        operations.use[of_other & (operations.kind == RowKind.OPERATION)] = OperationUse.EXCLUDED
    for number in np.flatnonzero(operations.use == OperationUse.EXCLUDED).tolist():
        operations.faults.pop(number, None)


def collapse_copies(operations: Operations, options: DispatchQueueOptions) -> None:
    """Marks operations that repeat another one for a further destination as copies.

    If their used bytes differ, all of them get a fault."""
    chosen = np.flatnonzero(
        (operations.use == OperationUse.COUNTED) & (operations.kind == RowKind.OPERATION)
    )
    keys = (operations.column("TRANSACT_ID"), operations.address, operations.node)
    order = chosen[np.lexsort((chosen, *(key[chosen] for key in keys)))]
    if len(order) < 2:
        return
    same = np.all([key[order][1:] == key[order][:-1] for key in keys], axis=0)
    for place in np.flatnonzero(same).tolist():
        first, second = int(order[place]), int(order[place + 1])
        operations.use[second] = OperationUse.COPY
        if operations.ignored[first] and operations.ignored[second]:
            continue
        if _has_other_name(operations, first, second) and _needs_name(operations, first, options):
            operations.add_fault(
                (first, second),
                Reason.DOUBLE_RECORD,
                "its destinations name the table differently; give it a name in [[sources.tables]], or"
                " choose one with destination",
            )
        elif not _is_equal(operations, first, second):
            operations.add_fault(
                (first, second),
                Reason.DOUBLE_RECORD,
                "its rows for several destinations differ; choose one with destination",
            )
    # copies share their faults
    for place in [*np.flatnonzero(same).tolist(), *np.flatnonzero(same)[::-1].tolist()]:
        first, second = int(order[place]), int(order[place + 1])
        for a, b in ((first, second), (second, first)):
            if a in operations.faults:
                operations.faults.setdefault(b, operations.faults[a])


def _has_other_name(operations: Operations, first: int, second: int) -> bool:
    """Tests whether the destinations of two operations differ in owner or table."""
    code1, code2 = (
        int(operations.rows.destination[operations.first[number]]) for number in (first, second)
    )
    names = operations.rows.destinations
    return names[code1][1:] != names[code2][1:]


def _needs_name(operations: Operations, number: int, options: DispatchQueueOptions) -> bool:
    """Tests whether the table of an operation is named after its destination."""
    node = operations.rows.nodes[int(operations.node[number])]
    table = options.table(node, int(operations.column("TABNUM_SRC")[number]))
    return table is not None and table.name is None


def _is_equal(operations: Operations, first: int, second: int) -> bool:
    if first in operations.faults or second in operations.faults:
        return True  # their own fault is reported instead
    heads = ("TYP", "TABNUM_SRC", "ROWID_SRC", "BLOBATR")
    values = [operations.rows.integers[name][operations.first] for name in heads] + [
        operations.len1,
        operations.len2,
    ]
    if any(column[first] != column[second] for column in values):
        return False
    images = [
        [operations.image(part) for part in operations.segments(number)]
        for number in (first, second)
    ]
    return images[0] == images[1]

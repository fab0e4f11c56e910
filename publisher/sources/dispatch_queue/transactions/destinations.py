"""Which operations count: those of the chosen databases and destinations, each once.

A table with several destinations has a row for each of them, most likely (reference, section 1.5).
"""

from __future__ import annotations

import numpy as np

from publisher.model.change import Reason
from publisher.sources.dispatch_queue.operations import (
    ALONE,
    COPY,
    EXCLUDED,
    OPERATION,
    Operations,
)
from publisher.sources.dispatch_queue.options import Options


def leave_out(made: Operations, options: Options) -> None:
    """Marks what the settings leave out."""
    made.counted[:] = ALONE
    if options.nodes:
        outside = np.array([name not in options.nodes for name in made.rows.nodes], bool)
        if len(outside):
            made.counted[outside[made.node]] = EXCLUDED
    if options.destination is not None and made.rows.destinations:
        other = np.array([d.server != options.destination for d in made.rows.destinations], bool)
        of_other = other[made.rows.destination[made.first]]
        made.counted[of_other & (made.kind == OPERATION)] = EXCLUDED
    for number in np.flatnonzero(made.counted == EXCLUDED).tolist():
        made.faults.pop(number, None)


def collapse(made: Operations, options: Options) -> None:
    """Of operations that differ in their destination only the first counts; all are at fault where the
    used bytes are not proved equal."""
    chosen = np.flatnonzero((made.counted == ALONE) & (made.kind == OPERATION))
    keys = (made.column("TRANSACT_ID"), made.address, made.node)
    order = chosen[np.lexsort((chosen, *(key[chosen] for key in keys)))]
    if len(order) < 2:
        return
    same = np.all([key[order][1:] == key[order][:-1] for key in keys], axis=0)
    for place in np.flatnonzero(same).tolist():
        one, other = int(order[place]), int(order[place + 1])
        made.counted[other] = COPY
        if made.ignored[one] and made.ignored[other]:
            continue
        if _named_otherwise(made, one, other) and _is_unnamed(made, one, options):
            made.fault(
                (one, other),
                Reason.DOUBLE_RECORD,
                "its destinations name the table differently; give it a name in [[sources.tables]], or"
                " choose one with destination",
            )
        elif not _equal(made, one, other):
            made.fault(
                (one, other),
                Reason.DOUBLE_RECORD,
                "its rows for several destinations differ; choose one with destination",
            )
    # a fault of one is a fault of all
    for place in [*np.flatnonzero(same).tolist(), *np.flatnonzero(same)[::-1].tolist()]:
        one, other = int(order[place]), int(order[place + 1])
        for a, b in ((one, other), (other, one)):
            if a in made.faults:
                made.faults.setdefault(b, made.faults[a])


def _named_otherwise(made: Operations, one: int, other: int) -> bool:
    """Whether owner or table of two destinations differ."""
    names = made.rows.destinations
    first, second = (int(made.rows.destination[made.first[number]]) for number in (one, other))
    return names[first][1:] != names[second][1:]


def _is_unnamed(made: Operations, number: int, options: Options) -> bool:
    """Whether an entry of the settings leaves the name of an operation's table to the destination."""
    node = made.rows.nodes[int(made.node[number])]
    table = options.table(node, int(made.column("TABNUM_SRC")[number]))
    return table is not None and table.name is None


def _equal(made: Operations, one: int, other: int) -> bool:
    if one in made.faults or other in made.faults:
        return True  # the fault says more
    heads = ("TYP", "TABNUM_SRC", "ROWID_SRC", "BLOBATR")
    values = [made.rows.integers[name][made.first] for name in heads] + [made.len1, made.len2]
    if any(column[one] != column[other] for column in values):
        return False
    images = [[made.image(part) for part in made.segments(number)] for number in (one, other)]
    return images[0] == images[1]

"""Rows to operations: continuation rows joined.

By the reference, sections 1.3 and 1.4.  An operation of one row is taken as it is; one of several rows is
joined as the file's reading of LEN1 and LEN2 says.  What cannot be is a fault of the operation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from publisher.model.change import Reason
from publisher.sources.columns.byte_areas import Mask
from publisher.sources.dispatch_queue.operations import (
    ALONE,
    BLOB_TYPES,
    CLOSING,
    COMMIT,
    OPERATION,
    ROLLBACK,
    WITH_DATA,
    Operations,
    PartsReading,
)
from publisher.sources.dispatch_queue.options import Options
from publisher.sources.dispatch_queue.rows import layout
from publisher.sources.dispatch_queue.rows.layout import DATA_BYTES
from publisher.sources.dispatch_queue.rows.rows import Codes, Rows


def operations_of(rows: Rows, options: Options, reading: PartsReading) -> Operations:
    """The operations of rows, checked; all of them count."""
    made, doubles = _grouped(rows, reading)
    made.fault(
        doubles,
        Reason.DOUBLE_RECORD,
        "a row with the same DBNODE, TRANSACT_ID, SYSLOG_ADDR, EXTDATA and destination stands there"
        " with different content; keep the one that is true",
    )
    _check_parts(made)
    _join_lengths(made)
    made.whole = ~np.isin(np.arange(len(made)), list(made.faults))
    _check_names(made)
    _tell_kinds(made, options.typ_dialect)
    if options.blobs == "ignore":
        _ignore_blobs(made)
    return made


def _grouped(rows: Rows, reading: PartsReading) -> tuple[Operations, list[int]]:
    """Rows of one operation together, in the order of EXTDATA; and those with contradicting rows.

    Rows that stand there again with the same content belong to the operation, and are not looked at."""
    part = rows.integers["EXTDATA"]
    ends = np.isin(rows.integers["TYP"], [layout.COMMIT, layout.CLOSING, layout.ROLLBACK])
    # the address of a COMMIT is promised nowhere: it may be that of an operation
    ends &= (rows.integers["LEN1"] == 0) & (rows.integers["LEN2"] == 0) & (part == 0)
    transaction = rows.integers["TRANSACT_ID"]
    keys = (ends, rows.destination, transaction, rows.address, rows.node)
    order = np.lexsort((rows.numbers, part, *keys))
    new = np.ones(len(order), bool)
    if len(order):
        new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    starts = np.flatnonzero(new)
    sizes: Codes = np.diff(np.append(starts, len(order)))
    first = order[starts]
    arrival = np.argsort(rows.numbers[first], kind="stable")
    first, sizes, starts = first[arrival], sizes[arrival], starts[arrival]
    group = np.full(len(first), -1, np.int64)
    members: list[list[int]] = []
    for number in np.flatnonzero(sizes > 1).tolist():
        group[number] = len(members)
        members.append(order[starts[number] : starts[number] + sizes[number]].tolist())
    zero = np.zeros(len(first), np.int64)
    made = Operations(
        rows=rows,
        first=first,
        parts=sizes,
        members=members,
        group=group,
        kind=zero,
        counted=np.full(len(first), ALONE, np.int64),
        len1=zero,
        len2=zero,
        reading=reading,
        whole=zero.astype(bool),
        ignored=zero.astype(bool),
    )
    return made, list(_doubled(made))


def _doubled(made: Operations) -> Iterator[int]:
    """Takes out rows that stand there again; gives the operations where they differ."""
    rows, part = made.rows, made.rows.integers["EXTDATA"]
    for number in np.flatnonzero(made.group >= 0).tolist():
        members = made.members[made.group[number]]
        distinct: list[int] = []
        for row in members:
            if distinct and part[distinct[-1]] == part[row]:
                if _same(rows, distinct[-1], row):
                    made.again.append(row)
                    continue
                yield number
            distinct.append(row)
        made.members[made.group[number]] = distinct
        made.parts[number] = len(distinct)


def _same(rows: Rows, one: int, other: int) -> bool:
    """Whether two rows are the same record: all columns, and DATA as far as it is used."""
    if any(column[one] != column[other] for column in rows.integers.values()):
        return False
    used = _used(rows, one)
    areas = []
    for row in (one, other):
        at, size = int(rows.data_at[row]), min(used, int(rows.data_bytes[row]))
        areas.append(rows.data[at : at + size])
    return bool(np.array_equal(areas[0], areas[1]))


def _used(rows: Rows, row: int) -> int:
    """Bytes of DATA that mean something, as far as the row itself tells."""
    total = int(rows.integers["LEN1"][row] + rows.integers["LEN2"][row])
    part = int(rows.integers["EXTDATA"][row])
    if part > 0 and total == 0:
        return DATA_BYTES  # a later part need not repeat the totals
    before = part * DATA_BYTES if total > DATA_BYTES else 0
    return max(0, min(DATA_BYTES, total - before))


_READING = "; look at the export, and at parts: it is read as the file's other operations say"


def _check_parts(made: Operations) -> None:
    """Parts 0 to n without holes, whose heads agree."""
    part = made.rows.integers["EXTDATA"]
    single = made.group < 0
    lone = np.flatnonzero(single & (part[made.first] != 0))
    made.fault(
        lone, Reason.PARTS, lambda n: f"part {part[made.first[n]]} is there, part 0 is not{_WINDOW}"
    )
    for number in np.flatnonzero(~single).tolist():
        members = made.members[made.group[number]]
        found = [int(part[row]) for row in members]
        if found != list(range(len(found))):
            said = ", ".join(map(str, found))
            made.fault(
                [number], Reason.PARTS, f"parts {said} do not go from 0 on without hole{_WINDOW}"
            )
        for name in ("TYP", "TABNUM_SRC", "ROWID_SRC"):
            values = made.rows.integers[name]
            head = values[members[0]]
            if any(values[row] not in (head, 0) for row in members[1:]):
                made.fault(
                    [number], Reason.PARTS, f"{name} differs between its parts; look at the export"
                )


_WINDOW = "; export all rows of the table, ordered by SYSLOG_ADDR and EXTDATA"


def _join_lengths(made: Operations) -> None:
    """LEN1 and LEN2 of whole operations, checked against the rows that are there."""
    made.len1, made.len2 = made.column("LEN1"), made.column("LEN2")
    negative = np.flatnonzero((made.len1 < 0) | (made.len2 < 0))
    made.fault(negative, Reason.PARTS, "LEN1 or LEN2 is negative; look at byte_order")
    total = made.len1 + made.len2
    single = made.group < 0
    made.fault(
        np.flatnonzero(single & (total > DATA_BYTES)),
        Reason.PARTS,
        lambda n: (
            f"LEN1 and LEN2 give {total[n]} bytes, and a row holds {DATA_BYTES}: continuation"
            f" rows are missing, or the lengths are wrong{_WINDOW}"
        ),
    )
    there = made.rows.data_bytes[made.first]
    made.fault(
        np.flatnonzero(single & (total > there)),
        Reason.PARTS,
        lambda n: (
            f"LEN1 and LEN2 give {total[n]} bytes, and DATA has {there[n]}; export all of DATA"
        ),
    )
    for number in np.flatnonzero(~single).tolist():
        if number not in made.faults:
            problem = _joined(made, number)
            if problem is not None:
                made.fault([number], Reason.PARTS, problem)


def _joined(made: Operations, number: int) -> str | None:
    """Sets the lengths of an operation of several rows; says what is wrong with them."""
    members = made.members[made.group[number]]
    if len(members) == 1:  # rows that stood there again are gone
        total = int(made.len1[number] + made.len2[number])
        have = int(made.rows.data_bytes[members[0]])
        short = f"LEN1 and LEN2 give {total} bytes, and DATA has {have}; export all of DATA"
        return None if total <= have else short
    ones = [int(made.rows.integers["LEN1"][row]) for row in members]
    twos = [int(made.rows.integers["LEN2"][row]) for row in members]
    sizes = [int(made.rows.data_bytes[row]) for row in members]
    if made.reading == "unknown":
        return 'the file does not tell what LEN1 and LEN2 count; set parts = "totals" or "per-part"'
    if made.reading == "per-part":
        made.len1[number], made.len2[number] = sum(ones), sum(twos)
        wrong = any(
            min(a, b) < 0 or a + b > size for a, b, size in zip(ones, twos, sizes, strict=True)
        )
        return f"LEN1 and LEN2 of a part give more than its DATA has{_READING}" if wrong else None
    total = ones[0] + twos[0]
    rest = list(zip(ones[1:], twos[1:], strict=True))
    if rest not in ([(ones[0], twos[0])] * len(rest), [(0, 0)] * len(rest)):
        return f"LEN1 and LEN2 of the later parts are neither those of the first nor 0{_READING}"
    if -(-total // DATA_BYTES) != len(members):
        return f"LEN1 and LEN2 give {total} bytes, and there are {len(members)} parts{_WINDOW}"
    wrong = any(
        size < min(DATA_BYTES, total - place * DATA_BYTES) for place, size in enumerate(sizes)
    )
    return "DATA of a part is shorter than LEN1 and LEN2 say; export all of DATA" if wrong else None


def _check_names(made: Operations) -> None:
    rows = made.rows
    if not rows.unreadable:
        return
    bad = np.array([name in rows.unreadable for name in rows.nodes], bool)[made.node]
    bad |= np.array([not rows.unreadable.isdisjoint(names) for names in rows.destinations], bool)[
        rows.destination[made.first]
    ]
    made.fault(
        np.flatnonzero(bad),
        Reason.BROKEN_RECORD,
        "DBNODE or a DST_ column is no text in the character code, or has a zero in it; set charset",
    )


def _tell_kinds(made: Operations, dialect: str) -> None:
    """What each is, by TYP and its joined lengths (reference, section 1.4)."""
    typ, one, two = made.column("TYP"), made.len1, made.len2
    empty = (one == 0) & (two == 0) & (made.parts == 1)
    empty &= ~np.isin(np.arange(len(made)), list(made.faults))
    made.kind = np.zeros(len(made), np.int64)
    made.kind[empty & (typ == layout.COMMIT)] = COMMIT if dialect == "a" else CLOSING
    if dialect == "a":
        made.kind[empty & (typ == layout.ROLLBACK)] = ROLLBACK
    made.kind[empty & (typ == layout.CLOSING)] = CLOSING
    legal = WITH_DATA if dialect == "a" else {1, 2, 3, 4}
    known = np.isin(typ, list(legal)) | (made.kind != OPERATION)
    closing = np.isin(
        typ, [layout.CLOSING, layout.ROLLBACK] if dialect == "a" else [layout.CLOSING]
    )
    made.fault(
        np.flatnonzero(~known & ~closing),
        Reason.OPERATION_CODE,
        lambda n: (
            f"TYP {typ[n]} is none that list {dialect} has; look at typ_dialect and byte_order"
        ),
    )
    wrong = (made.kind == OPERATION) & (closing | _wrong_lengths(typ, one, two))
    made.fault(
        np.flatnonzero(wrong),
        Reason.PARTS,
        lambda n: f"TYP {typ[n]} with LEN1 = {one[n]} and LEN2 = {two[n]} cannot be: {_EXPECTED}",
    )


_EXPECTED = (
    "DELETE and INSERT have a first image only, UPDATE two, COMMIT and ROLLBACK none; look at the"
    " export"
)


def _ignore_blobs(made: Operations) -> None:
    """Marks the operations on BLOBs, whose rows and lengths may be anything."""
    typ = made.column("TYP")
    made.ignored = (made.kind == OPERATION) & np.isin(typ, list(BLOB_TYPES))
    for number, fault in list(made.faults.items()):
        if not made.ignored[number]:
            continue
        # a 4 that is wrong may be a COMMIT; and where a name is no text, nobody knows whose it is
        if typ[number] == layout.COMMIT or fault.reason not in (Reason.PARTS, Reason.DOUBLE_RECORD):
            made.ignored[number] = False
        else:
            del made.faults[number]


def _wrong_lengths(typ: Codes, one: Codes, two: Codes) -> Mask:
    single = np.isin(typ, [layout.DELETE, layout.INSERT, layout.COMMIT])
    wrong: Mask = single & ((one <= 0) | (two != 0))
    wrong |= (typ == layout.UPDATE) & ((one <= 0) | (two <= 0))
    wrong |= np.isin(typ, [7, 8, 9]) & (one <= 0)
    return wrong

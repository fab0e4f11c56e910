"""Joins rows, including continuation rows, to operations.

The meaning of LEN1 and LEN2 in the file determines how the rows of an operation are joined.  Contradictions
are faults of the operation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from publisher.formats.columns.byte_areas import Mask, begins_run
from publisher.formats.dispatch_queue.operations import (
    BLOB_TYPES,
    WITH_DATA,
    Operations,
    OperationUse,
    PartsReading,
    RowKind,
)
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows.layout import DATA_BYTES, OperationCode
from publisher.formats.dispatch_queue.rows.rows import Codes, QueueRows
from publisher.model.change import Reason


def join_rows(rows: QueueRows, options: DispatchQueueOptions, reading: PartsReading) -> Operations:
    """Joins rows to operations and checks the operations; none is a copy or excluded yet."""
    operations = _group(rows, reading)
    operations.add_fault(
        list(_remove_repetitions(operations)),
        Reason.DOUBLE_RECORD,
        "a row with the same DBNODE, TRANSACT_ID, SYSLOG_ADDR, EXTDATA and destination has different"
        " content; keep the correct row",
    )
    _check_parts(operations)
    _join_lengths(operations)
    operations.whole = ~np.isin(np.arange(len(operations)), list(operations.faults))
    _check_names(operations)
    _set_kinds(operations)
    if options.blobs == "ignore":
        _ignore_blobs(operations)
    return operations


def _group(rows: QueueRows, reading: PartsReading) -> Operations:
    """Groups rows by operation, in the order of EXTDATA."""
    part = rows.integers["EXTDATA"]
    ends = np.isin(
        rows.integers["TYP"], [OperationCode.COMMIT, OperationCode.CLOSING, OperationCode.ROLLBACK]
    )
    # no page guarantees that a COMMIT has its own address: an operation may have the same address
    ends &= (rows.integers["LEN1"] == 0) & (rows.integers["LEN2"] == 0) & (part == 0)
    transaction = rows.integers["TRANSACT_ID"]
    keys = (ends, rows.destination, transaction, rows.address, rows.node)
    order = np.lexsort((rows.numbers, part, *keys))
    starts = np.flatnonzero(begins_run(*(key[order] for key in keys)))
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
    return Operations(
        rows=rows,
        first=first,
        parts=sizes,
        members=members,
        group=group,
        kind=zero,
        use=np.full(len(first), OperationUse.COUNTED, np.int64),
        len1=zero,
        len2=zero,
        reading=reading,
        whole=zero.astype(bool),
        ignored=zero.astype(bool),
    )


def _remove_repetitions(operations: Operations) -> Iterator[int]:
    """Removes exact repetitions of rows; yields operations with contradicting rows."""
    rows, part = operations.rows, operations.rows.integers["EXTDATA"]
    for number in np.flatnonzero(operations.group >= 0).tolist():
        members = operations.members[operations.group[number]]
        distinct: list[int] = []
        for row in members:
            if distinct and part[distinct[-1]] == part[row]:
                if _is_same(rows, distinct[-1], row):
                    operations.repeated.append(row)
                    continue
                yield number
            distinct.append(row)
        operations.members[operations.group[number]] = distinct
        operations.parts[number] = len(distinct)


def _is_same(rows: QueueRows, first: int, second: int) -> bool:
    """Tests whether two rows have the same columns and the same used bytes of DATA."""
    if any(column[first] != column[second] for column in rows.integers.values()):
        return False
    used = _used_bytes(rows, first)
    areas = []
    for row in (first, second):
        at, size = int(rows.data_at[row]), min(used, int(rows.data_bytes[row]))
        areas.append(rows.data[at : at + size])
    return bool(np.array_equal(areas[0], areas[1]))


def _used_bytes(rows: QueueRows, row: int) -> int:
    """Returns the used bytes of DATA according to the row itself."""
    total = int(rows.integers["LEN1"][row] + rows.integers["LEN2"][row])
    part = int(rows.integers["EXTDATA"][row])
    if part > 0 and total == 0:
        return DATA_BYTES  # a later part need not repeat the totals
    before = part * DATA_BYTES if total > DATA_BYTES else 0
    return max(0, min(DATA_BYTES, total - before))


_PARTS_ADVICE = (
    "; check the export, and set parts if the other operations of the file mislead parts = auto"
)


def _check_parts(operations: Operations) -> None:
    """Checks that parts are numbered from 0 without gaps and agree in their common columns."""
    part = operations.rows.integers["EXTDATA"]
    single = operations.group < 0
    lone = np.flatnonzero(single & (part[operations.first] != 0))
    operations.add_fault(
        lone,
        Reason.PARTS,
        lambda n: f"part {part[operations.first[n]]} exists, part 0 does not{_EXPORT_ADVICE}",
    )
    for number in np.flatnonzero(~single).tolist():
        members = operations.members[operations.group[number]]
        numbers = [int(part[row]) for row in members]
        if numbers != list(range(len(numbers))):
            text = ", ".join(map(str, numbers))
            operations.add_fault(
                [number],
                Reason.PARTS,
                f"parts {text} are not numbered from 0 without gaps{_EXPORT_ADVICE}",
            )
        for name in ("TYP", "TABNUM_SRC", "ROWID_SRC"):
            values = operations.rows.integers[name]
            head = values[members[0]]
            if any(values[row] not in (head, 0) for row in members[1:]):
                operations.add_fault(
                    [number], Reason.PARTS, f"{name} differs between its parts; check the export"
                )


_EXPORT_ADVICE = "; export all rows of the table, ordered by SYSLOG_ADDR and EXTDATA"


def _join_lengths(operations: Operations) -> None:
    """Determines LEN1 and LEN2 of whole operations and checks them against their rows."""
    operations.len1, operations.len2 = operations.column("LEN1"), operations.column("LEN2")
    negative = np.flatnonzero((operations.len1 < 0) | (operations.len2 < 0))
    operations.add_fault(negative, Reason.PARTS, "LEN1 or LEN2 is negative; check byte_order")
    total = operations.len1 + operations.len2
    single = operations.group < 0
    operations.add_fault(
        np.flatnonzero(single & (total > DATA_BYTES)),
        Reason.PARTS,
        lambda n: (
            f"LEN1 and LEN2 give {total[n]} bytes, but a row holds {DATA_BYTES}: continuation"
            f" rows are missing, or the lengths are wrong{_EXPORT_ADVICE}"
        ),
    )
    available = operations.rows.data_bytes[operations.first]
    operations.add_fault(
        np.flatnonzero(single & (total > available)),
        Reason.PARTS,
        lambda n: _short_data(total[n], available[n]),
    )
    for number in np.flatnonzero(~single).tolist():
        if number not in operations.faults:
            problem = _join_parts(operations, number)
            if problem is not None:
                operations.add_fault([number], Reason.PARTS, problem)


def _short_data(total: int, available: int) -> str:
    return f"LEN1 and LEN2 give {total} bytes, but DATA has {available}; export all of DATA"


def _join_parts(operations: Operations, number: int) -> str | None:
    """Sets the lengths of an operation of several rows; returns a problem, if any."""
    members = operations.members[operations.group[number]]
    if len(members) == 1:  # only repetitions were removed
        total = int(operations.len1[number] + operations.len2[number])
        available = int(operations.rows.data_bytes[members[0]])
        return None if total <= available else _short_data(total, available)
    len1 = [int(operations.rows.integers["LEN1"][row]) for row in members]
    len2 = [int(operations.rows.integers["LEN2"][row]) for row in members]
    sizes = [int(operations.rows.data_bytes[row]) for row in members]
    if operations.reading == "unknown":
        return 'the file does not show what LEN1 and LEN2 count; set parts = "totals" or "per-part"'
    if operations.reading == "per-part":
        operations.len1[number], operations.len2[number] = sum(len1), sum(len2)
        wrong = any(
            min(a, b) < 0 or a + b > size for a, b, size in zip(len1, len2, sizes, strict=True)
        )
        return (
            f"LEN1 and LEN2 of a part give more bytes than its DATA{_PARTS_ADVICE}"
            if wrong
            else None
        )
    total = len1[0] + len2[0]
    later = list(zip(len1[1:], len2[1:], strict=True))
    if later not in ([(len1[0], len2[0])] * len(later), [(0, 0)] * len(later)):
        return f"LEN1 and LEN2 of later parts are neither those of the first nor 0{_PARTS_ADVICE}"
    if -(-total // DATA_BYTES) != len(members):
        return (
            f"LEN1 and LEN2 give {total} bytes, but there are {len(members)} parts{_EXPORT_ADVICE}"
        )
    wrong = any(
        size < min(DATA_BYTES, total - place * DATA_BYTES) for place, size in enumerate(sizes)
    )
    return "DATA of a part is shorter than LEN1 and LEN2 say; export all of DATA" if wrong else None


def _check_names(operations: Operations) -> None:
    rows = operations.rows
    if not rows.unreadable:
        return
    bad = np.array([name in rows.unreadable for name in rows.nodes], bool)[operations.node]
    bad |= np.array([not rows.unreadable.isdisjoint(names) for names in rows.destinations], bool)[
        rows.destination[operations.first]
    ]
    operations.add_fault(
        np.flatnonzero(bad),
        Reason.BROKEN_RECORD,
        "DBNODE or a DST_ column is not text in the character code, or contains a zero; set charset",
    )


def _set_kinds(operations: Operations) -> None:
    """Determines the kind of each operation from TYP and its lengths."""
    typ, len1, len2 = operations.column("TYP"), operations.len1, operations.len2
    empty = (len1 == 0) & (len2 == 0) & (operations.parts == 1)
    empty &= ~np.isin(np.arange(len(operations)), list(operations.faults))
    operations.kind = np.zeros(len(operations), np.int64)
    operations.kind[empty & (typ == OperationCode.COMMIT)] = RowKind.COMMIT
    operations.kind[empty & (typ == OperationCode.ROLLBACK)] = RowKind.ROLLBACK
    operations.kind[empty & (typ == OperationCode.CLOSING)] = RowKind.CLOSING
    is_legal = np.isin(typ, list(WITH_DATA)) | (operations.kind != RowKind.OPERATION)
    closing = np.isin(typ, [OperationCode.CLOSING, OperationCode.ROLLBACK])
    operations.add_fault(
        np.flatnonzero(~is_legal & ~closing),
        Reason.OPERATION_CODE,
        lambda n: f"TYP {typ[n]} is unknown; check byte_order",
    )
    wrong = (operations.kind == RowKind.OPERATION) & (closing | _wrong_lengths(typ, len1, len2))
    operations.add_fault(
        np.flatnonzero(wrong),
        Reason.PARTS,
        lambda n: (
            f"TYP {typ[n]} with LEN1 = {len1[n]} and LEN2 = {len2[n]} is invalid: {_LENGTHS_ADVICE}"
        ),
    )


_LENGTHS_ADVICE = (
    "DELETE and INSERT have a first image only, UPDATE two, COMMIT and ROLLBACK none; check the"
    " export"
)


def _ignore_blobs(operations: Operations) -> None:
    """Marks operations on BLOBs as ignored, whatever their rows and lengths."""
    typ = operations.column("TYP")
    operations.ignored = (operations.kind == RowKind.OPERATION) & np.isin(typ, list(BLOB_TYPES))
    for number, fault in list(operations.faults.items()):
        if not operations.ignored[number]:
            continue
        # a faulty code 4 may be a COMMIT, and an unreadable name hides the database
        if typ[number] == OperationCode.COMMIT or fault.reason not in (
            Reason.PARTS,
            Reason.DOUBLE_RECORD,
        ):
            operations.ignored[number] = False
        else:
            del operations.faults[number]


def _wrong_lengths(typ: Codes, len1: Codes, len2: Codes) -> Mask:
    single = np.isin(typ, [OperationCode.DELETE, OperationCode.INSERT, OperationCode.COMMIT])
    wrong: Mask = single & ((len1 <= 0) | (len2 != 0))
    wrong |= (typ == OperationCode.UPDATE) & ((len1 <= 0) | (len2 <= 0))
    wrong |= np.isin(typ, [7, 8, 9]) & (len1 <= 0)
    return wrong

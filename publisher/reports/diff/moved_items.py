"""Finds items whose object differs between two ledgers, for instance after a change of identifier case.

Items without a partner in their own object are partitioned by identity and paired again.  Then the objects
that only one ledger has are counted, those with partners as changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from publisher.reports.diff.compare_objects import (
    ComparedOperation,
    ComparedRecord,
    Counts,
    DocumentPlace,
)
from publisher.reports.diff.pairing import Pairing, pair_items
from publisher.reports.diff.partition_files import PartitionFiles, text_partitions

_ITEM_SCHEMA = pa.schema(
    [
        ("side", pa.int8()),
        ("identity", pa.string()),
        # of a record the position, of an operation the event id
        ("name", pa.string()),
        ("group", pa.string()),
        ("has_object", pa.bool_()),
        # the other ledger does not have the object
        ("is_alone", pa.bool_()),
        # of a record, else null
        ("outcome", pa.int8()),
        ("reason", pa.string()),
        ("records", pa.int64()),
        # of an operation, else null
        ("kind", pa.string()),
        ("association", pa.string()),
        ("values", pa.list_(pa.struct([("name", pa.string()), ("digest", pa.binary())]))),
        ("place", pa.list_(pa.int64())),
        ("number", pa.int32()),
        ("has_own_id", pa.bool_()),
    ]
)
_OBJECT_SCHEMA = pa.schema(
    [
        ("side", pa.int8()),
        ("group", pa.string()),
        ("is_alone", pa.bool_()),
        ("partner", pa.string()),
        ("counts", pa.bool_()),
    ]
)
_OF_RECORD = ("outcome", "reason", "records")
_ROWS_TOGETHER = 10_000


@dataclass(frozen=True, slots=True)
class ObjectName:
    """An object of one ledger.

    ``group`` identifies it, see ``ROW_SCHEMA``; ``is_alone``: the other ledger does not have it."""

    group: str
    has_object: bool
    is_alone: bool


class MovableItem(NamedTuple):
    """A record or an operation without a partner in its own object."""

    object: ObjectName
    item: ComparedRecord | ComparedOperation


class _Rows:
    """Collects rows before they are partitioned."""

    def __init__(self, files: PartitionFiles, schema: pa.Schema, column: str) -> None:
        self._files, self._schema, self._column = files, schema, column
        self._rows: list[dict[str, Any]] = []

    def add(self, **row: Any) -> None:
        self._rows.append(row)
        if len(self._rows) >= _ROWS_TOGETHER:
            self._write()

    def read(self) -> Iterator[pa.Table]:
        self._write()
        return self._files.read()

    def _write(self) -> None:
        if self._rows:
            table = pa.Table.from_pylist(self._rows, self._schema)
            self._files.add(table, text_partitions(table[self._column], self._files.count))
            self._rows = []


class MovedItems:
    """Collects items without a partner, then pairs them over all objects; a context manager."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._items, self._objects = (
            _Rows(
                self._stack.enter_context(PartitionFiles(schema, self._partitions)), schema, column
            )
            for schema, column in ((_ITEM_SCHEMA, "identity"), (_OBJECT_SCHEMA, "group"))
        )
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def add(self, side: int, obj: ObjectName, item: ComparedRecord | ComparedOperation) -> None:
        """Adds an item that the other ledger may have, too."""
        row: dict[str, Any] = {"side": side, "identity": item.identity, "group": obj.group}
        row |= {"has_object": obj.has_object, "is_alone": obj.is_alone}
        if isinstance(item, ComparedRecord):
            row |= {"outcome": item.outcome, "reason": item.reason, "records": item.records}
            self._items.add(**row, name=item.position)
        else:
            values = [{"name": name, "digest": digest} for name, digest in item.values]
            row |= {"kind": item.kind, "association": item.association, "values": values}
            row |= {"place": list(item.place), "number": item.number}
            self._items.add(**row, name=item.event_id, has_own_id=item.has_own_id)

    def pair(self) -> Iterator[Pairing[MovableItem]]:
        """Yields the pairs, and the items that only one ledger has, in parts."""
        for rows in self._items.read():
            for is_record in (True, False):
                of_kind = rows.filter(pc.equal(rows["outcome"].is_valid(), is_record)).to_pylist()
                sides = [
                    [_restore(row) for row in of_kind if row["side"] == side] for side in (0, 1)
                ]
                found = pair_items(sides[0], sides[1], lambda each: each.item.identity, _no_content)
                for one, other in found.pairs:
                    counts = one.object.is_alone or other.object.is_alone
                    self._add_partners(0, one.object, other.object, counts=counts)
                    self._add_partners(1, other.object, one.object, counts=counts)
                for side, alone in enumerate((found.only_first, found.only_second)):
                    for each in alone:
                        self.add_alone(side, each.object)
                yield found

    def add_alone(self, side: int, obj: ObjectName) -> None:
        """Adds an object with an item that the other ledger does not have."""
        if obj.has_object and obj.is_alone:
            self._objects.add(side=side, group=obj.group, is_alone=True, partner=None, counts=False)

    def _add_partners(
        self, side: int, obj: ObjectName, partner: ObjectName, *, counts: bool
    ) -> None:
        if obj.has_object:
            self._objects.add(
                side=side,
                group=obj.group,
                is_alone=obj.is_alone,
                partner=partner.group if partner.has_object else None,
                counts=counts,
            )

    def count_objects(self) -> Counts:
        """Counts the objects that only one ledger has, and as changed the pairs with another object."""
        total = Counts()
        for rows in self._objects.read():
            paired = rows.filter(
                pc.and_(
                    pc.equal(rows["side"], 0), pc.and_(rows["counts"], rows["partner"].is_valid())
                )
            )
            pairs = paired.group_by(["group", "partner"]).aggregate([])
            objects = rows.group_by(["side", "group", "is_alone"]).aggregate([("partner", "count")])
            alone = objects.filter(
                pc.and_(objects["is_alone"], pc.equal(objects["partner_count"], 0))
            )
            first = pc.sum(pc.equal(alone["side"], 0)).as_py() or 0
            total += Counts(0, pairs.num_rows, first, alone.num_rows - first)
        return total


def _no_content(_: MovableItem) -> None:
    """All items have identities."""


def _restore(row: dict[str, Any]) -> MovableItem:
    obj = ObjectName(row["group"], row["has_object"], row["is_alone"])
    if row["outcome"] is not None:
        return MovableItem(obj, ComparedRecord(row["name"], True, *(row[n] for n in _OF_RECORD)))
    operation = ComparedOperation(
        event_id=row["name"],
        is_known=True,
        has_own_id=row["has_own_id"],
        kind=row["kind"],
        association=row["association"],
        values=tuple((value["name"], value["digest"]) for value in row["values"]),
        place=DocumentPlace(*row["place"]),
        number=row["number"],
    )
    return MovableItem(obj, operation)

"""Deletes after which updates of child tables are ignored, until the key has an object again."""

from __future__ import annotations

from collections import OrderedDict

import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import INSERTS, Change, Decision, EventType, Object
from publisher.model.change_batches import changes_of
from publisher.model.key_changes import KeyHistory
from publisher.planning.columnar.rows import Flags, Numbers
from publisher.planning.precedence import BARRIERS, ignore_after_delete
from publisher.planning.renderer import Renderer

REMEMBERED = 100_000
"""Maximum number of deleted objects that a lane remembers; the children's events follow the delete soon."""


class Deletes:
    """The last deletes of a lane, and changes of keys, after which no object has the old key."""

    def __init__(
        self, history: KeyHistory, renderer: Renderer, *, by_transaction: bool = False
    ) -> None:
        """With ``by_transaction`` deletes count in their transaction only; where records name no transaction,
        the run counts as one."""
        self._history = history
        self._renderer = renderer
        self._by_transaction = by_transaction
        self._transaction: str | None = None
        self._deleted: OrderedDict[Object, Change] = OrderedDict()

    @property
    def keys(self) -> list[str]:
        """The keys of the deleted objects."""
        return [obj.key for obj in self._deleted]

    def ignore_after(self, changes: list[Change]) -> tuple[list[Change], list[Decision]]:
        """Drops updates of child tables after the delete of their object, and decides on them.

        ``changes`` are those of one object in one poll."""
        if not changes:
            return changes, []
        obj = changes[0].object
        if self._by_transaction and changes[0].transaction != self._transaction:
            self._transaction = changes[0].transaction
            self._deleted.clear()
        before = self._deleted.pop(obj, None)
        if before is None and BARRIERS.isdisjoint([change.event_type for change in changes]):
            return changes, []
        remaining, decisions, deleted = ignore_after_delete(
            changes, self._renderer.ends_with_delete, self._history, before
        )
        if deleted is not None:
            self._add(deleted)
        return remaining, decisions

    def add_batch(self, batch: pa.RecordBatch, rows: Numbers, planned: Flags) -> None:
        """Notes the deletes among planned changes; ``rows`` are the row numbers of all changes."""
        are_planned = pa.array(planned)
        are_deletes = pc.equal(batch["event_type"], int(EventType.DELETE_ROW))
        deletes = batch.filter(pc.and_(are_deletes, are_planned))
        if not deletes.num_rows or not self._concerns(deletes):
            return
        kinds = pa.array([*INSERTS, EventType.DELETE_ROW], pa.int32())
        may_end = pc.and_(pc.is_in(batch["key"], deletes["key"]), are_planned)
        wanted = pc.and_(may_end, pc.is_in(batch["event_type"], kinds))
        numbers = pa.array(rows).filter(wanted).to_pylist()
        for change in changes_of(batch.filter(wanted), numbers):
            self._deleted.pop(change.object, None)
            if change.event_type == EventType.DELETE_ROW:
                self._add(change)

    def _concerns(self, deletes: pa.RecordBatch) -> bool:
        tables = pa.Table.from_batches([deletes.select(["schema", "table"])])
        return any(
            self._renderer.ends_children(Object(row["schema"], row["table"], ""))
            for row in tables.group_by(["schema", "table"]).aggregate([]).to_pylist()
        )

    def _add(self, change: Change) -> None:
        if not self._renderer.ends_children(change.object):
            return
        self._deleted[change.object] = change
        if len(self._deleted) > REMEMBERED:
            self._deleted.popitem(last=False)

"""The documents of a bucket: parsed and folded, and facts about the documents of single objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.consumer.delivery import Delivery, from_record
from publisher.consumer.errors import DocumentError, Origin
from publisher.consumer.operations import (
    Add,
    AddValue,
    Modify,
    Operation,
    RemoveAllValues,
    RemoveValue,
    Value,
)
from publisher.consumer.parse import parse_document
from publisher.formats.columns.row_images import Mask
from publisher.verify.compare import ObjectDocuments
from publisher.verify.documents import DocumentPart, headers_of
from publisher.verify.fold import FoldedObjects, fold
from publisher.verify.fold_columns import ObjectValues, find_repeated, fold_operations
from publisher.verify.operation_columns import (
    OperationCollector,
    OperationColumns,
    OperationKind,
    OperationRows,
    join_rows,
)
from publisher.verify.plain_documents import read_plain
from publisher.verify.results import UnreadableDocument


@dataclass(slots=True)
class BucketDocuments:
    """Reads the documents of a bucket in the order of their parts."""

    rows: pa.Table
    parts: Sequence[DocumentPart]
    """The parts that the column ``order`` numbers."""
    connected: Collection[str] = ()
    """The associations of objects whose keys change."""
    repeated: int = 0
    """Number of documents that consumers ignore, because they have arrived before."""
    unreadable: list[UnreadableDocument] = field(default_factory=list)
    operations: OperationColumns = field(init=False)
    published: ObjectValues = field(init=False)

    def __post_init__(self) -> None:
        order = [("order", "ascending"), ("number", "ascending")]
        self.rows = self.rows.sort_by(order).combine_chunks()
        rows, is_readable = self._read()
        self.operations = join_rows([rows])
        is_renamed = self._mark_key_changes(len(is_readable))
        if is_renamed.any():
            deliveries = (self._delivery(at) for at in np.flatnonzero(is_renamed).tolist())
            folded = fold([*deliveries])
            collector = OperationCollector()
            collector.add(-1, _as_operations(folded))
            self.operations = join_rows([collector.rows(), rows])
            self.repeated = folded.repeated
        event_ids = pc.if_else(pa.array(is_readable), self._column("event_id"), None)
        contents = (self._column("association"), self._column("data"))
        is_repeated = find_repeated(event_ids, contents) & ~is_renamed
        documents = self.operations.documents
        self.repeated += int(is_repeated[np.unique(documents[documents >= 0])].sum())
        # operations of no document have the last mark
        ignored = np.append(is_repeated | is_renamed, False)[documents]
        self.published = fold_operations(self.operations, ignored)

    def facts_of(self, names: Collection[str]) -> Mapping[str, ObjectDocuments]:
        """Returns facts about the documents of objects."""
        facts = {name: ObjectDocuments() for name in names}
        operations, last = self.operations, dict[str, int]()
        value_set = pa.array([*names], pa.string())
        is_wanted = pc.is_in(operations.associations, value_set).to_numpy(zero_copy_only=False)
        chosen = np.flatnonzero(is_wanted[operations.objects] & (operations.documents >= 0))
        is_rename = operations.kinds == OperationKind.RENAME
        # of the two rows of a change of the key, the first one has the old key
        is_end = is_rename & (np.cumsum(is_rename) % 2 == 1)
        is_end |= operations.kinds == OperationKind.DELETE
        rows = self.rows.select(["order", "number", "event_id"]).take(
            pa.array(operations.documents[chosen])
        )
        places = pa.array(operations.objects[chosen])
        for name, document, row, ends in zip(
            operations.associations.take(places).to_pylist(),
            operations.documents[chosen].tolist(),
            rows.to_pylist(),
            is_end[chosen].tolist(),
            strict=True,
        ):
            facts[name].is_ended |= ends
            if last.get(name) != document:
                last[name] = document
                origin = Origin(self.parts[row["order"]].name, row["number"])
                facts[name].add(origin, row["event_id"])
        return facts

    def _read(self) -> tuple[OperationRows, Mask]:
        """Reads the operations of the documents; marks the documents that consumers can read."""
        count = self.rows.num_rows
        is_usual, is_readable = np.ones(count, bool), np.ones(count, bool)
        for name in ("key_from", "key_to", "problem"):
            is_usual &= self._column(name).is_null().to_numpy(zero_copy_only=False)
        data = self._column("data")
        names = pc.if_else(pa.array(is_usual), self._column("association"), None)
        collector = OperationCollector()
        for at, (document, name) in enumerate(zip(data, names, strict=True)):
            is_readable[at] = self._collect(collector, at, document, name.as_py())
        return collector.rows(), is_readable

    def _collect(
        self, collector: OperationCollector, at: int, data: pa.Scalar, name: str | None
    ) -> bool:
        """Parses a document; returns whether consumers can read it."""
        plain = None if name is None else read_plain(data.as_py())
        if plain is not None and plain.association == name:
            collector.add_plain(at, plain)
            return True
        try:
            collector.add(at, self._delivery(at).operations)
        except DocumentError as error:
            self.unreadable.append(UnreadableDocument(str(error.place), error.problem))
            return False
        return True

    def _mark_key_changes(self, count: int) -> Mask:
        """Marks the documents of objects whose keys change."""
        operations = self.operations
        is_rename = operations.kinds == OperationKind.RENAME
        is_marked = np.zeros(count, bool)
        if not self.connected and not is_rename.any():
            return is_marked
        names = operations.associations.to_pylist()
        is_renamed = np.array([name in self.connected for name in names], bool)
        is_renamed[operations.objects[is_rename]] = True
        is_marked[operations.documents[is_renamed[operations.objects]]] = True
        return is_marked

    def _delivery(self, at: int) -> Delivery:
        """Parses a document.  Raises ``DocumentError``."""
        (document,) = self.rows.slice(at, 1).to_pylist()
        part, data = self.parts[document["order"]], document["data"]
        origin = Origin(part.name, document["number"])
        if document["problem"] is not None:
            raise DocumentError(origin, document["problem"])
        if not part.is_topic:
            return Delivery(parse_document(data, origin), origin)
        key = document["association"].encode() or None
        return from_record(data, key, headers_of(document), origin)

    def _column(self, name: str) -> pa.Array:
        return self.rows.column(name).combine_chunks()


def _as_operations(folded: FoldedObjects) -> Iterator[Operation]:
    """Yields operations that lead to the same objects, and mention the same attributes."""
    for name, known in folded.objects.items():
        mentioned = folded.mentioned.get(name)
        changes = [AddValue(a, value) for a, values in known.attributes.items() for value in values]
        if mentioned is None:
            yield Add(name, known.class_name, tuple(changes))
            continue
        whole = [RemoveAllValues(a) for a, is_whole in mentioned.items() if is_whole]
        empty = [
            RemoveValue(a, Value(""))
            for a, is_whole in mentioned.items()
            if not is_whole and not known.values(a)
        ]
        yield Modify(name, known.class_name, (*whole, *empty, *changes))

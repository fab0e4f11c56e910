"""The documents of a bucket: parsed and folded, and facts about the documents of single objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from publisher.consumer.delivery import Delivery, from_record
from publisher.consumer.errors import DocumentError, Origin
from publisher.consumer.operations import ModifyAssociation
from publisher.consumer.parse import parse_document
from publisher.sources.columns.row_images import Places
from publisher.sources.triggerless.multi_values import group_values
from publisher.verify.compare import ObjectDocuments
from publisher.verify.documents import DocumentPart, headers_of
from publisher.verify.elements import element_of, element_text
from publisher.verify.fold import FoldedObjects, fold
from publisher.verify.results import UnreadableDocument

_AT_ONCE = 4_096


@dataclass(slots=True)
class BucketDocuments:
    """Reads the documents of a bucket in the order of their parts, and folds them into objects."""

    rows: pa.Table
    parts: Sequence[DocumentPart]
    """The parts that the column ``order`` numbers."""
    unreadable: list[UnreadableDocument] = field(default_factory=list)
    folded: FoldedObjects = field(init=False)
    associations: pa.Array = field(init=False)
    """The objects after the documents, in the order in which documents first mention them."""
    _places: dict[str, list[int]] = field(default_factory=dict)
    """The places in ``rows`` of the documents of each object."""

    def __post_init__(self) -> None:
        self.rows = self.rows.sort_by([("order", "ascending"), ("number", "ascending")])
        self.folded = fold(self._read())
        names = [name for name in self._places if name in self.folded.objects]
        self.associations = pa.array(names, pa.string())

    @property
    def repeated(self) -> int:
        """Number of documents that consumers ignore, because they have arrived before."""
        return self.folded.repeated

    def columns(self, chosen: Places) -> Mapping[str, pa.Array]:
        """Writes the values of the chosen objects as joined elements, by attribute."""
        objects: dict[str, list[int]] = {}
        elements: dict[str, list[str]] = {}
        for at, name in enumerate(self.associations.take(pa.array(chosen)).to_pylist()):
            for attribute, values in self.folded.objects[name].attributes.items():
                objects.setdefault(attribute, []).extend([at] * len(values))
                elements.setdefault(attribute, []).extend(map(element_of, values))
        return {
            attribute: group_values(
                np.array(objects[attribute], np.int64), len(chosen), pa.array(texts, pa.string())
            )
            for attribute, texts in elements.items()
        }

    def texts(self) -> dict[str, dict[str, set[str]]]:
        """Returns the texts of the values of all objects, by attribute."""
        return {
            name: {
                attribute: {element_text(element_of(value)) for value in values}
                for attribute, values in known.attributes.items()
            }
            for name, known in self.folded.objects.items()
        }

    def mentions_of(self, names: Collection[str]) -> dict[str, dict[str, bool]]:
        """Returns the attributes that documents mention of partial objects, see ``ObjectEvidence``."""
        mentioned = self.folded.mentioned
        return {name: mentioned[name] for name in names if name in mentioned}

    def facts_of(self, names: Collection[str]) -> Mapping[str, ObjectDocuments]:
        """Returns facts about the documents of objects."""
        facts = {}
        columns = self.rows.select(["order", "number", "event_id"])
        for name in names:
            facts[name] = ObjectDocuments(is_ended=name in self.folded.ended)
            places = pa.array(self._places.get(name, ()), pa.int64())
            for row in columns.take(places).to_pylist():
                origin = Origin(self.parts[row["order"]].name, row["number"])
                facts[name].add(origin, row["event_id"])
        return facts

    def _read(self) -> Iterator[Delivery]:
        """Parses the documents; notes those that consumers cannot read."""
        at = -1
        for batch in self.rows.to_batches(_AT_ONCE):
            for row in batch.to_pylist():
                at += 1
                try:
                    delivery = self._parse(row)
                except DocumentError as error:
                    problem = UnreadableDocument(str(error.place), error.problem)
                    self.unreadable.append(problem)
                    continue
                for name in _names_of(delivery):
                    self._places.setdefault(name, []).append(at)
                yield delivery

    def _parse(self, row: Mapping[str, Any]) -> Delivery:
        """Parses a document.  Raises ``DocumentError``."""
        part, data = self.parts[row["order"]], row["data"]
        origin = Origin(part.name, row["number"])
        if row["problem"] is not None:
            raise DocumentError(origin, row["problem"])
        if not part.is_topic:
            return Delivery(parse_document(data, origin), origin)
        key = row["association"].encode() or None
        return from_record(data, key, headers_of(row), origin)


def _names_of(delivery: Delivery) -> Collection[str]:
    """Returns the associations of the objects that a document changes, in its order."""
    names = dict[str, None]()
    for operation in delivery.operations:
        if isinstance(operation, ModifyAssociation):
            names[operation.old] = names[operation.new] = None
        else:
            names[operation.association] = None
    return names

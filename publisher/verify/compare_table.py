"""Compares the objects of one table in one bucket, and writes their differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.row_images import Mask, Places
from publisher.formats.triggerless.differences import Differences, TableRows
from publisher.formats.triggerless.hashing import text_hashes
from publisher.formats.triggerless.table_shape import TableShape
from publisher.model.catalogue import ColumnKind
from publisher.model.change import Object
from publisher.model.keys import format_key, parse
from publisher.planning.rendered_columns import ColumnRenderer
from publisher.verify.associations import AssociationTable, split_association
from publisher.verify.compare import (
    FINDINGS,
    ObjectEvidence,
    ObjectStates,
    ResultKind,
    StateDifferences,
    compare_states,
    judge_changed,
)
from publisher.verify.elements import readable, table_elements
from publisher.verify.results import (
    RESULT_SCHEMA,
    AttributeValues,
    Example,
    TableResult,
    first_of_kinds,
)
from publisher.xds.association import key_text, suffix


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A table to compare with documents."""

    shape: TableShape
    key_order: tuple[str, ...] = ()
    """Columns of a compound key in the order of associations."""
    source: int = 0
    """Number of the source that publishes it."""

    @property
    def name(self) -> AssociationTable:
        """Its name in associations."""
        return AssociationTable(self.shape.schema, self.shape.table)

    @property
    def suffix(self) -> str:
        """The part that the associations of its objects share."""
        return suffix(self.shape.table, self.shape.schema)

    def associations(self, keys: pa.Array) -> pa.Array:
        """Writes the associations of canonical keys."""
        if len(self.shape.key) > 1:
            ordered = [key_text(key, self.key_order) for key in keys.to_pylist()]
            keys = pa.array(ordered, pa.string())
        return pc.binary_join_element_wise(keys, self.suffix, "")

    def keys(self, associations: Sequence[str]) -> pa.Array:
        """Reads the canonical keys of associations."""
        keys = [split_association(name) for name in associations]
        texts = ["" if parts is None else parts.key for parts in keys]
        if len(self.shape.key) > 1:
            pairs = (sorted((part.column, part.value) for part in parse(text)) for text in texts)
            texts = [format_key(columns) for columns in pairs]
        return pa.array(texts, pa.string())


class CompareInput(NamedTuple):
    """The two sides of a table in a bucket."""

    rows: TableRows
    """The objects of the table."""
    associations: pa.Array
    """Associations of the published objects."""
    published: Mapping[str, pa.Array]
    """Their values as joined elements, by attribute."""
    evidence_of: Callable[[Collection[str]], ObjectEvidence]
    """Collects the facts about objects that differ."""
    blind: Collection[int] = ()
    """Numbers of the tables in the class that have unreadable rows; 0 is the parent."""


@dataclass(slots=True)
class TableComparison:
    """Compares the objects of a table in a bucket."""

    table: ComparedTable
    renderer: ColumnRenderer
    given: CompareInput
    examples: int
    evidence: ObjectEvidence = field(default_factory=ObjectEvidence)
    kinds: dict[str, ResultKind] = field(default_factory=dict)
    """The results of objects that are not equal, by key."""
    names: dict[str, str] = field(default_factory=dict)
    """Their associations."""
    found: list[Example] = field(default_factory=list)
    taken: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    """Number of different objects by attribute."""

    def run(self) -> tuple[TableResult, pa.RecordBatch]:
        """Compares both sides; returns counts and examples, and the differences of ``RESULT_SCHEMA``."""
        rows, published = self.given.rows, self.given.published
        # attributes that only documents have follow the columns of the table
        names = [*{**dict.fromkeys(self.table.shape.columns), **dict.fromkeys(published)}]
        associations = self.table.associations(rows.keys)
        ours, bad = self._table_values(names)
        nothing = pa.nulls(len(self.given.associations), pa.string())
        values = [published.get(name, nothing) for name in names]
        sides = (
            ObjectStates(associations, ours),
            ObjectStates(self.given.associations, values),
        )
        numbers = self._numbers(names)
        table, documents = (side.with_plain_numbers(numbers) for side in sides)
        differences = compare_states(table, documents, bad | self._unknown(names))
        self.evidence = self.given.evidence_of(_names_of(sides, differences))
        collected = Differences(self.table.shape.columns, self.table.shape.multiple)
        self._judge_missing(rows, sides[0], differences.missing, collected)
        self._judge_surplus(sides[1], differences.surplus, collected)
        masks = self._judge_changed(names, sides, differences)[:, : len(self.table.shape.columns)]
        collected.add_changed(rows.take(differences.changed), masks, None)
        counts = Counter(str(kind) for kind in self.kinds.values())
        result = TableResult(
            self.table.name.text,
            len(rows) - len(differences.missing) - len(differences.changed),
            dict(counts),
            dict(self.different),
            int(bad.sum()),
            examples=first_of_kinds(self.found, self.examples),
        )
        return result, self._with_results(collected.to_batch())

    def _table_values(self, names: Sequence[str]) -> tuple[list[pa.Array], Mask]:
        shape, rows = self.table.shape, self.given.rows
        obj = Object(shape.schema, shape.table, "")
        texts = {**dict(zip(shape.columns, rows.values, strict=True)), **self._key_values(names)}
        bad = np.zeros((len(rows), len(names)), bool)
        columns = []
        for number, name in enumerate(names):
            column = self.renderer.column(obj, name) if name in texts else None
            if column is None or not column.is_published:
                columns.append(pa.nulls(len(rows), pa.string()))
                # a column that is not published may have any value
                bad[:, number] = column is not None
                continue
            multiple = name in shape.multiple
            columns.append(
                table_elements(texts[name], column.convert, bad[:, number], is_multiple=multiple)
            )
        return columns, bad

    def _unknown(self, names: Sequence[str]) -> Mask:
        """Marks the attributes of child tables of which some rows cannot be read."""
        children = self.table.shape.children
        unknown = {name for n in self.given.blind if n for name in children[n - 1].columns}
        return np.array([name in unknown for name in names], bool)

    def _numbers(self, names: Sequence[str]) -> frozenset[int]:
        """Returns the places of the columns whose texts are numbers with a fraction."""
        shape = self.table.shape
        table = self.renderer.known_table(Object(shape.schema, shape.table, ""))
        kinds = {} if table is None else table.columns
        return frozenset(
            number
            for number, name in enumerate(names)
            if kinds.get(name) is ColumnKind.DECIMAL and name not in shape.multiple
        )

    def _key_values(self, names: Sequence[str]) -> Mapping[str, pa.Array]:
        """The values of key columns that documents have as attributes."""
        parts = {part.name for part in self.table.shape.key} & set(names)
        if not parts:
            return {}
        keys = self.given.rows.keys
        prefix = f"{self.table.shape.key[0].name}="
        is_plain = pc.and_(pc.starts_with(keys, prefix), pc.invert(pc.match_substring(keys, '"')))
        if len(self.table.shape.key) == 1 and pc.all(is_plain, min_count=0).as_py():
            return {name: pc.utf8_slice_codeunits(keys, len(prefix)) for name in parts}
        parsed = [{part.column: part.value for part in parse(key)} for key in keys.to_pylist()]
        return {
            name: pa.array([values.get(name) for values in parsed], pa.string()) for name in parts
        }

    def _judge_missing(
        self, rows: TableRows, ours: ObjectStates, missing: Places, collected: Differences
    ) -> None:
        for place in missing.tolist():
            name = ours.associations[place].as_py()
            self._note(rows.keys[place].as_py(), name, self.evidence.judge_missing(name))
        collected.add_new(rows.take(missing), replace=False)

    def _judge_surplus(self, theirs: ObjectStates, surplus: Places, collected: Differences) -> None:
        names = [theirs.associations[place].as_py() for place in surplus.tolist()]
        keys = self.table.keys(names)
        kind = ResultKind.PERHAPS_SURPLUS if 0 in self.given.blind else ResultKind.SURPLUS
        for key, name in zip(keys.to_pylist(), names, strict=True):
            self._note(key, name, self.evidence.judge_present(name, kind))
        collected.add_deleted(text_hashes(keys), keys)

    def _judge_changed(
        self,
        names: Sequence[str],
        sides: tuple[ObjectStates, ObjectStates],
        differences: StateDifferences,
    ) -> Mask:
        """Returns masks of the columns that are wrong."""
        masks = differences.differs.copy()
        keys, multiple = self.given.rows.keys, self.table.shape.multiple
        for row, (place, other) in enumerate(
            zip(differences.changed.tolist(), differences.published.tolist(), strict=True)
        ):
            name = sides[0].associations[place].as_py()
            differs = differences.differs[row]
            judged = judge_changed(name, differs, names, multiple, self.evidence)
            masks[row] = judged.columns
            if judged.kind in FINDINGS:
                self.different.update(names[n] for n in np.flatnonzero(judged.columns).tolist())
            shown: tuple[AttributeValues, ...] = ()
            if self.taken[judged.kind] < self.examples:
                wrong = np.flatnonzero(judged.columns).tolist()
                shown = tuple(_show(names[n], n, sides, place, other) for n in wrong)
            self._note(keys[place].as_py(), name, judged.kind, shown)
        return masks

    def _note(
        self,
        key: str,
        association: str,
        kind: ResultKind,
        attributes: tuple[AttributeValues, ...] = (),
    ) -> None:
        self.kinds[key], self.names[key] = kind, association
        self.taken[kind] += 1
        if self.taken[kind] <= self.examples:
            origins = self.evidence.origins(association)
            place = str(origins[-1]) if origins else ""
            self.found.append(Example(str(kind), association, attributes, place))

    def _with_results(self, differences: pa.RecordBatch) -> pa.RecordBatch:
        keys = differences.column("key").to_pylist()
        results, names = ([of_key[key] for key in keys] for of_key in (self.kinds, self.names))
        of_objects = [pa.array(texts, pa.string()) for texts in (map(str, results), names)]
        columns = [*of_objects, *differences.columns]
        return pa.RecordBatch.from_arrays(columns, schema=RESULT_SCHEMA)


def _names_of(sides: tuple[ObjectStates, ObjectStates], differences: StateDifferences) -> set[str]:
    """Returns the associations of objects that are not equal."""
    ours, theirs = sides
    places = np.concatenate([differences.missing, differences.changed])
    names = ours.associations.take(pa.array(places)).to_pylist()
    return {*names, *theirs.associations.take(pa.array(differences.surplus)).to_pylist()}


def _show(
    name: str, column: int, sides: tuple[ObjectStates, ObjectStates], place: int, other: int
) -> AttributeValues:
    table, published = (
        tuple(readable(side.values[column][at].as_py()))
        for side, at in zip(sides, (place, other), strict=True)
    )
    return AttributeValues(name, published, table)

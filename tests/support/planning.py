"""Helpers for tests of planning: events written by hand, a planner, documents as short text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from lxml import etree

from publisher.model.catalogue import Catalogue, ColumnKind, JobCatalogue, Table
from publisher.model.change import (
    PER_FIELD,
    Change,
    Object,
    Outcome,
    Position,
    Reason,
)
from publisher.model.change_batches import batch_of_objects, objects_of
from publisher.model.classes import ClassOptions
from publisher.model.key_changes import KeyHistory
from publisher.model.keys import IdentifierCase
from publisher.model.published_objects import PublishedObjects
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.planning.filters import Filter, FilterOptions, PositionRange
from publisher.planning.lane import LanePlanner, PlanResult
from publisher.planning.names import SourceNames, SourceNaming, key_columns
from publisher.planning.plan import PlanRules
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import (
    NO_DATABASE,
    NO_NAMED_COLUMNS,
    Answer,
    Answers,
    CurrentRow,
    CurrentRows,
    Lookup,
    NamedColumns,
    ObjectLookup,
    RefusedLookup,
    RowLookups,
)
from publisher.planning.rendered_columns import ColumnRenderer
from publisher.planning.texts import Form
from publisher.xds.document import DocumentOptions, Envelope, EnvelopeOptions
from publisher.xds.values import ValueOptions, Values
from tests.support.event_ids import ORIGIN
from tests.support.plan_results import Decision, Document, decisions_of, each_document

USR = Object("indirect", "usr", "idu=1")
USR_2 = Object("indirect", "usr", "idu=2")
DEPT = Object("indirect", "dept", "no=1")
TABLES = (
    Table(
        "indirect",
        "usr",
        ("idu",),
        {
            "idu": ColumnKind.INT,
            "a": ColumnKind.STRING,
            "b": ColumnKind.STRING,
            "n": ColumnKind.INT,
            "p": ColumnKind.OCTET,
        },
    ),
    Table(
        "indirect",
        "dept",
        ("no",),
        {"no": ColumnKind.INT, "a": ColumnKind.STRING, "b": ColumnKind.STRING},
    ),
)
ENVELOPE = EnvelopeOptions()


class Event(NamedTuple):
    """A change without its places; ``at`` is the record_id, by default one more than the last."""

    event_type: int
    column: str | None = None
    new: str | None = None
    old: str | None = None
    obj: Object = USR
    at: int | None = None
    time: int = 0
    perpetrator: str | None = None


def log(*events: Event) -> list[Change]:
    """The events as the changes of a lane, in the order given."""
    changes: list[Change] = []
    for row, event in enumerate(events):
        last = changes[-1].rank if changes else 0
        at = event.at if event.at is not None else last + 1
        per_field = event.event_type in PER_FIELD
        changes.append(
            Change(
                row=row,
                object=event.obj,
                position=Position("", at, 0, 0),
                rank=at,
                event_type=event.event_type,
                columns=(event.column,) if per_field and event.column is not None else (),
                old=(event.old,) if event.event_type == 2 else None,
                new=(event.new,) if event.event_type <= 3 else None,
                event_time=event.time,
                perpetrator=event.perpetrator,
            )
        )
    return changes


@dataclass
class Rows:
    """The rows of a database as the ``Lookup`` of a planner; counts what it is asked."""

    answers_by_object: Mapping[Object, Answer] = field(default_factory=dict)
    asked: list[list[Object]] = field(default_factory=list)
    named: list[Mapping[Object, Collection[str]]] = field(default_factory=list)

    def read(self, objects: pa.RecordBatch, named: NamedColumns = NO_NAMED_COLUMNS) -> Answers:
        asked = objects_of(objects)
        self.asked.append(asked)
        self.named.append({asked[place]: columns for place, columns in named.items()})
        answers = dict(enumerate(map(self.answers_by_object.get, asked)))
        kinds: dict[object, dict[int, CurrentRow]] = {}
        others: dict[int, RefusedLookup | None] = {}
        for place, answer in answers.items():
            if isinstance(answer, CurrentRow):
                shape = tuple(isinstance(value, tuple) for value in answer.values)
                key = key_columns(asked[place].key)
                kind = (asked[place][:2], key, answer.columns, shape)
                kinds.setdefault(kind, {})[place] = answer
            else:
                others[place] = answer
        return Answers([CurrentRows.of(rows) for rows in kinds.values()], others)


def answers_of(
    lookup: Lookup,
    objects: Sequence[Object],
    named: Mapping[Object, Collection[str]] = MappingProxyType({}),
) -> dict[Object, Answer]:
    """The answers of a look-up, object by object."""
    places = {objects.index(obj): columns for obj, columns in named.items()}
    rows, others = lookup.read(batch_of_objects(objects), places)
    answers: dict[int, Answer] = {
        place: answer for part in rows for place, answer in part.answers()
    }
    answers |= others
    return {obj: answers[place] for place, obj in enumerate(objects)}


@dataclass
class PlannedDocuments:
    """The result of planning, its documents one by one."""

    documents: list[Document] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    lookups: list[ObjectLookup] = field(default_factory=list)


def documents_of(results: Iterable[PlanResult]) -> list[Document]:
    """The documents one by one."""
    batches = [batch for each in results for batch in each.documents]
    return [document for batch in batches for document in each_document(batch)]


@dataclass(frozen=True)
class Setup:
    """Settings of a planner in a test."""

    polls: PollOptions | None = field(default_factory=PollOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    documents: DocumentOptions = field(default_factory=DocumentOptions)
    values: ValueOptions = field(default_factory=ValueOptions)
    lookup: Lookup = NO_DATABASE
    window: PositionRange | None = None
    held_after: int | None = None
    case: IdentifierCase = IdentifierCase.AS_WRITTEN
    position_text: Callable[[Position], str] = Position.text
    catalogue: Catalogue = field(default_factory=lambda: JobCatalogue(TABLES))
    published: PublishedObjects | None = None

    def lane_planner(self, history: KeyHistory | None = None) -> LanePlanner:
        history = history or KeyHistory()
        filter_ = Filter(self.filters, held_after=self.held_after, catalogue=self.catalogue)
        columns = ColumnRenderer(self.case, Values(self.values), filter_, self.catalogue)
        naming = SourceNaming("log", self.position_text, origin=ORIGIN)
        rules = PlanRules(
            names=SourceNames(columns, filter_, ClassOptions(), self.case),
            naming=naming,
            filter=filter_,
            windows=self.polls,
            published_range=self.window,
            rejected=None,
            history=history,
            keeps_order=self.published is not None or bool(history.old_keys),
        )
        form = Form(self.documents, Envelope(ENVELOPE))
        return LanePlanner(rules, form, self.lookup, self.published)

    def plan(self, changes: Iterable[Change], batch: int = 0) -> PlannedDocuments:
        """All that a planner gives, fed in batches of this many changes, or at once."""
        changes = list(changes)
        planner = self.lane_planner(KeyHistory(c for c in changes if c.event_type == 9))
        step = batch or max(1, len(changes))
        results: list[PlanResult] = []
        with closing(planner):
            for at in range(0, len(changes), step):
                results += add(planner, changes[at : at + step])
            results += planner.finish()
        return PlannedDocuments(
            documents_of(results),
            [one for each in results for part in each.outcomes for one in decisions_of(part)],
            [one for each in results for part in each.lookups for one in lookups_of(part)],
        )


def add(planner: LanePlanner, changes: Sequence[Change]) -> list[PlanResult]:
    """What a planner gives for the next changes."""
    rows = np.array([change.row for change in changes], np.int64)
    return list(planner.add(rows, batch_of_changes(changes)))


def batch_of_changes(changes: Sequence[Change]) -> pa.RecordBatch:
    """Changes as the records of a lane."""
    columns = {name: [getattr(c, name) for c in changes] for name in Change._fields}
    columns |= {name: [getattr(c.object, name) for c in changes] for name in Object._fields}
    columns |= {name: [getattr(c.position, name) for c in changes] for name in Position._fields}
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(len(changes), field.type)
        for field in RECORD_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


def lookups_of(lookup: ObjectLookup | RowLookups) -> list[ObjectLookup]:
    """Look-ups one by one."""
    if isinstance(lookup, ObjectLookup):
        return [lookup]
    rows = CurrentRows(np.arange(len(lookup.polls)), lookup.columns, lookup.values)
    objects = objects_of(lookup.objects)
    return [
        ObjectLookup(obj, number, answer)
        for obj, number, (_, answer) in zip(
            objects, lookup.polls.tolist(), rows.answers(), strict=True
        )
    ]


def operations(document: Document) -> str:
    """A document in short: ``modify a-Jack+John b!`` -- ``-`` remove, ``+`` add, ``!`` remove all."""
    sent = etree.fromstring(document.text).find("input")
    assert sent is not None
    return "; ".join(map(_operation, sent))


def _operation(element: etree._Element) -> str:
    words = [element.tag]
    for attribute in element.iterchildren("add-attr", "modify-attr"):
        word = str(attribute.get("attr-name"))
        for part in attribute.iter("value", "remove-all-values"):
            if part.tag == "remove-all-values":
                word += "!"
            else:
                parent = part.getparent()
                assert parent is not None
                word += ("-" if parent.tag == "remove-value" else "+") + (part.text or "")
        words.append(word)
    return " ".join(words)


def operation_texts(planned: PlannedDocuments) -> list[str]:
    """The documents in short, in order."""
    return [operations(document) for document in planned.documents]


def outcomes(planned: PlannedDocuments, changes: Sequence[Change]) -> list[str]:
    """Outcome and reason of each change in the order of the log; the document's place if published."""
    found: dict[int, list[str]] = {change.row: [] for change in changes}
    for place, document in enumerate(planned.documents):
        for row in document.rows:
            found[row].append(f"document {place}")
    for decision in planned.decisions:
        found[decision.row].append(decision_text(decision))
    assert all(len(entries) == 1 for entries in found.values()), found
    return [found[change.row][0] for change in changes]


def decision_text(decision: Decision) -> str:
    """``superseded: field-query-back by 3``, with the row of the change that did it."""
    by = f" by {decision.by}" if decision.by >= 0 else ""
    return f"{decision.outcome.label}: {decision.reason}{by}"


def reason(planned: PlannedDocuments, row: int) -> tuple[Outcome, Reason | None]:
    """Outcome and reason of one change that is not published."""
    (decision,) = [decision for decision in planned.decisions if decision.row == row]
    return decision.outcome, decision.reason

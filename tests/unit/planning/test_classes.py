"""Events on random classes, against an oracle written from the description of logical classes alone."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.database.options import DatabaseOptions
from publisher.model.catalogue import ChildTable, Table
from publisher.model.classes import ClassOptions
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import FilterOptions
from publisher.planning.polls import PollOptions
from publisher.xds.document import DocumentOptions
from publisher.xds.values import ValueOptions
from tests.support.class_cases import CaseMaker, ClassCase, write_database
from tests.support.class_oracle import SCHEMA, plan_events
from tests.support.event_log_files import write
from tests.support.task_runs import plan_all, planned_reader, read_all, work_of

CASES = 120


def declared_tables(case: ClassCase) -> list[Table]:
    """The parents of the child tables that the settings name."""
    found: dict[str, dict[str, ChildTable]] = {}
    for name in case.classes.rules.declared:
        owner = case.classes.tables[name].owner
        if owner is not None:
            found.setdefault(owner.table, {})[name] = ChildTable()
    return [Table(SCHEMA, name, children=children) for name, children in found.items()]


def plan(
    case: ClassCase, folder: Path, lanes: int
) -> tuple[list[tuple[int, str, str]], dict[int, str]]:
    """Documents with their first records and objects, and the fates of the other events."""
    rules, classes = case.rules, case.classes.rules
    work = work_of(
        [write(folder / "log.csv", case.rows)],
        lanes=lanes,
        polls=PollOptions(rules.poll_size, rules.poll_slack),
        filters=FilterOptions(
            exclude=tuple(classes.excluded_tables), exclude_columns=tuple(classes.excluded_columns)
        ),
        documents=DocumentOptions(rules.batch_size, insert_query_back=rules.insert_query_back),
        tables=declared_tables(case),
    )
    options = ClassOptions(
        sync_filter="schema" if classes.listed is None else "list",
        sync_tables=tuple(classes.listed or ()),
        child_columns=classes.child_columns,
        child_row_events=classes.child_row_events,
        child_after_delete=rules.child_after_delete,
        enable_refs=classes.enable_refs,
    )
    url = write_database(case, folder / "objects.db")
    work = replace(
        work,
        sources=(replace(work.sources[0], identifier_case=IdentifierCase.DATABASE),),
        rules=replace(
            work.rules,
            classes=options,
            values=ValueOptions(reference_text=classes.reference_text),
            database=DatabaseOptions(url=url, schema=SCHEMA),
        ),
    )
    documents: list[tuple[int, str, str]] = []
    fates: dict[int, str] = {}
    reader = planned_reader(plan_all(work, read_all(work), folder), folder)
    documents += [(int(d.records.split(",")[0]), d.association, d.text) for d in reader.documents()]
    for record in reader.records():
        if record.reason is not None:
            fates[record.position.high] = f"{record.outcome.label}: {record.reason}"
    return sorted(documents), fates


@pytest.mark.parametrize("start", range(0, CASES, 10))
def test_events_give_the_documents_that_the_rules_give_by_hand(start: int) -> None:
    for seed in range(start, start + 10):
        case = CaseMaker(seed).case()
        expected = plan_events(case.events, case.classes, case.rules)
        with tempfile.TemporaryDirectory() as folder:
            documents, fates = plan(case, Path(folder), lanes=1 + seed % 3)
        assert fates == expected[1], f"case {seed}"
        assert documents == expected[0], f"case {seed}"

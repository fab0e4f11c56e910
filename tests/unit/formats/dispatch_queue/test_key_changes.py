"""Changes of keys in DISPATCH_QUEUE: any lanes and splits give the rows that the operations lead to."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.consumer import Objects
from publisher.engine.local import LocalEngine
from publisher.formats.dispatch_queue import DispatchQueue, DispatchQueueOptions
from publisher.formats.work import Work
from publisher.model.catalogue import JobCatalogue
from publisher.model.change import Outcome
from publisher.runs.key_groups import group_keys
from tests.support import event_log_files
from tests.support.dispatch_queue_codes import COMMIT, DELETE, INSERT, ROLLBACK, UPDATE
from tests.support.dispatch_queue_files import Queue, Row, binary, jack, options
from tests.support.prepare import prepare_here
from tests.support.task_runs import apply_texts, lines, plan_all, read_all, results_of, work_of

NOTHING = JobCatalogue(())
OPTIONS = options(key_change="modify-association", parts="totals")


class Operations(NamedTuple):
    """The rows of a queue, and the last names by key that they lead to."""

    queue: list[Row]
    rows: dict[int, str]


@st.composite
def operations(draw: st.DrawFn) -> Operations:
    """Transactions on a small table, some of them rolled back; keys move in chains and in circles."""
    writer, queue = Queue(), list[Row]()
    rows: dict[int, str] = {}
    for number in range(1, draw(st.integers(1, 8)) + 1):
        before = rows.copy()
        for step in range(draw(st.integers(1, 6))):
            key, other = draw(st.integers(1, 5)), draw(st.integers(1, 5))
            text = f"t{number}.{step}"
            if key not in rows:
                rows[key] = text
                queue.append(writer.row(INSERT, jack(key, lname=text), TRANSACT_ID=number))
            elif other not in rows or draw(st.booleans()):
                target = other if other not in rows else key
                old = rows.pop(key)
                rows[target] = old if target != key and draw(st.booleans()) else text
                images = jack(key, lname=old), jack(target, lname=rows[target])
                queue.append(writer.row(UPDATE, *images, TRANSACT_ID=number))
            else:
                old = rows.pop(key)
                queue.append(writer.row(DELETE, jack(key, lname=old), TRANSACT_ID=number))
        ending = draw(st.sampled_from([COMMIT, COMMIT, ROLLBACK]))
        queue.append(writer.row(ending, TRANSACT_ID=number))
        rows = before if ending == ROLLBACK else rows
    return Operations(queue, rows)


def work_over(
    folder: Path, queue: list[Row], lanes: int, splits: int, used: DispatchQueueOptions = OPTIONS
) -> Work:
    work = work_of([event_log_files.write(folder / "log.csv", [])], lanes=lanes)
    path = folder / "queue.bin"
    path.write_bytes(binary(queue))
    with prepare_here(DispatchQueue(used), [path], splits, NOTHING) as prepared:
        source = replace(
            work.sources[0], source=prepared.source, splits=prepared.splits, polls=None
        )
    return group_keys(replace(work, sources=(source,)), LocalEngine())


@settings(max_examples=25, deadline=None)
@given(operations(), st.integers(1, 4), st.integers(1, 5))
def test_the_documents_lead_to_the_rows(given_: Operations, lanes: int, splits: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = work_over(folder, given_.queue, lanes, splits)
        results = plan_all(work, read_all(work), folder)
        counts = [
            (count.outcome, count.records)
            for result in results_of(results)
            for count in result.counts
        ]
        assert {outcome for outcome, _ in counts} <= {Outcome.PUBLISHED, Outcome.IGNORED}
        assert sum(records for _, records in counts) == len(given_.queue)
        objects = Objects(strict=True)
        apply_texts(objects, lines(results))
        assert {name: objects[name].text("lname") for name in objects} == {
            f"idu={key},table=usr,schema=hr": text for key, text in given_.rows.items()
        }


RENAME = (
    "<modify-association><association>idu=1,table=usr,schema=hr</association>"
    "<association>idu=2,table=usr,schema=hr</association></modify-association>"
)


@pytest.mark.parametrize(("lname", "count"), [("Smith", 1), ("Jones", 2)])
@pytest.mark.parametrize("update", ["changed", "replaced"])
def test_a_changed_key_is_a_modify_association_and_a_modify_of_the_rest(
    lname: str, count: int, update: str, tmp_path: Path
) -> None:
    writer = Queue()
    queue = [writer.row(UPDATE, jack(1), jack(2, lname=lname)), writer.row(COMMIT)]
    work = work_over(tmp_path, queue, 3, 1, options(key_change="modify-association", update=update))
    texts = lines(plan_all(work, read_all(work), tmp_path))
    assert len(texts) == count
    assert RENAME in texts[0]
    assert all("idu=2" in text and lname in text for text in texts[1:])

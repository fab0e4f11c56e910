"""Whole exports of random transactions: any cut and any order of the rows gives what the rules say."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from publisher.formats.contract import Context
from publisher.formats.dispatch_queue import DispatchQueue, to_records
from publisher.formats.dispatch_queue.rows import layout
from publisher.model.catalogue import JobCatalogue
from publisher.model.change import Outcome
from tests.support.dispatch_queue_codes import COMMIT, INSERT, ROLLBACK, UPDATE
from tests.support.dispatch_queue_files import (
    BIG,
    OPTIONS,
    Queue,
    Row,
    binary,
    delimited_text,
    image,
    jack,
    read_files,
    record_texts,
)
from tests.support.prepare import prepare_here

_BIG = (image(BIG, [9, "x", "old"]), image(BIG, [9, "x", "new"]))


class Expected(NamedTuple):
    """The outcome of an export by the rules."""

    published: list[str]
    """Changes in the order of the COMMITs, then of the addresses."""
    outcomes: Counter[int | None]
    """Rows by outcome; ``None`` of those that are published."""


transactions = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["insert", "big", "broken", "copy"]), max_size=4),
        st.sampled_from(["commit", "commit", "commit", "rollback", "open"]),
    ),
    min_size=1,
    max_size=6,
)


def write_operations(
    drawn: list[tuple[list[str], str]], chance: random.Random
) -> tuple[list[list[Row]], Expected]:
    """Operations in the order of the log, and what the rules say of them."""
    queue = Queue()
    steps = [(n, kind) for n, (kinds, _) in enumerate(drawn) for kind in kinds]
    chance.shuffle(steps)
    ends = [n for n, (_, end) in enumerate(drawn) if end != "open"]
    chance.shuffle(ends)
    operations: list[list[Row]] = []
    changes: dict[int, list[str]] = {n: [] for n in range(len(drawn))}
    for key, (number, kind) in enumerate(steps):
        if kind == "big":
            operations.append(queue.rows(UPDATE, *_BIG, TRANSACT_ID=number, TABNUM_SRC=8))
            changes[number].append("2 id=9 b=old>new")
            continue
        data = jack(key)[: -1 if kind == "broken" else None]
        row = queue.row(INSERT, data, TRANSACT_ID=number)
        operations.append([row] if kind != "copy" else [row, row | {"DST_SERVER": b"SRV2"}])
        changes[number].append(f"1 idu={key} fname=Jack lname=Smith note=n")
    for number in ends:
        typ = COMMIT if drawn[number][1] == "commit" else ROLLBACK
        operations.append([queue.row(typ, TRANSACT_ID=number)])
    published: list[str] = []
    outcomes: Counter[int | None] = Counter({Outcome.IGNORED: len(ends)})
    for number in [*ends, *(n for n in range(len(drawn)) if n not in ends)]:
        kinds, end = drawn[number]
        sizes = {"insert": 1, "big": 3, "broken": 1, "copy": 1}
        rows = sum(sizes[kind] for kind in kinds)
        copies = kinds.count("copy")
        if end == "open":
            outcomes[Outcome.HELD] += rows + copies
        elif end == "rollback":
            outcomes[Outcome.IGNORED] += rows + copies
        else:
            outcomes[Outcome.IGNORED] += copies
            outcomes[Outcome.REJECTED if "broken" in kinds else None] += rows
            published += [] if "broken" in kinds else changes[number]
    return operations, Expected(published, outcomes)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    drawn=transactions,
    chance=st.randoms(use_true_random=False),
    order=st.sampled_from(["log", "rows", "destinations"]),
    form=st.sampled_from(["binary", "padded", "text"]),
    files=st.integers(1, 3),
    wanted=st.sampled_from([1, 2, 5, 100]),
)
def test_any_cut_and_order_gives_what_the_rules_say(
    tmp_path: Path,
    drawn: list[tuple[list[str], str]],
    chance: random.Random,
    order: str,
    form: str,
    files: int,
    wanted: int,
) -> None:
    operations, expected = write_operations(drawn, chance)
    if order == "rows":
        chance.shuffle(operations)
    cuts = sorted(chance.randrange(len(operations) + 1) for _ in range(files - 1))
    paths = []
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(operations)], strict=True)):
        rows = [row for operation in operations[start:stop] for row in operation]
        if order == "rows":
            chance.shuffle(rows)
        elif order == "destinations":
            rows.sort(key=lambda row: row["DST_SERVER"])
        path = tmp_path / f"{number}.{'csv' if form == 'text' else 'dat'}"
        if form == "text":
            path.write_text(delimited_text(rows))
        else:
            path.write_bytes(binary(rows, stride=3600 if form == "padded" else 3596))
        paths.append(path)
    records, framed = read_files(DispatchQueue(OPTIONS), paths, wanted)
    counts: Counter[int | None] = Counter()
    for record in records:
        counts[record["outcome"]] += record["records"]
    assert framed == counts.total() == expected.outcomes.total()
    assert +counts == +expected.outcomes
    published = [record for record in records if record["outcome"] is None]
    published.sort(key=lambda r: (r["part"], r["rank"], r["high"], r["low"], r["ordinal"]))
    assert record_texts(published) == expected.published
    for path in paths:
        path.unlink()


def test_a_transaction_larger_than_memory_goes_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Envelopes are held, images are not: a fraction of the file, however long the transaction is."""
    count = 6000
    queue = Queue()
    rows = np.frombuffer(binary([queue.row(INSERT, jack(1))]), layout.row_type())
    rows = np.repeat(rows, count)
    rows["SYSLOG_ADDR"] += np.arange(count) * 100
    rows["TYP"][-1], rows["LEN1"][-1] = COMMIT, 0
    path = tmp_path / "queue.dat"
    rows.tofile(path)
    monkeypatch.setattr(to_records, "BLOCK", 256)
    source = DispatchQueue(OPTIONS)
    context = Context(0, 4, JobCatalogue(()))
    splits = source.splits([path], 2)
    assert len(splits) == 2
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    most = changes = 0
    with prepare_here(source, [path], 2, context.catalogue) as prepared:
        for number in range(len(prepared.splits)):
            for batch in prepared.read(number, context):
                changes += batch.num_rows
                most = max(most, pa.total_allocated_bytes() - before)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert changes == count + len(splits)
    assert peak + most < path.stat().st_size / 4

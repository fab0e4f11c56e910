"""The comparison of ledgers, and the command ``diff``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.cli.main import cli
from publisher.consumer import parse_document
from publisher.errors import UsageError
from publisher.ledger.run_reader import RunReader
from publisher.ledger.runs import LedgerRun
from publisher.reports.diff import build, ledger_rows
from publisher.reports.diff.build import diff_ledgers
from publisher.reports.diff.compare_objects import Counts
from publisher.xds.document import DocumentOptions
from tests.support.event_ids import plain_ids
from tests.support.finished_runs import close_hours, finish_run, make_ledgers
from tests.support.planned_ledgers import HEAD, commit_plan, manifest_of
from tests.support.task_runs import work_of

Record = tuple[int, int, str]
"""Key, event type and value of an event."""

RECORDS = st.dictionaries(
    st.integers(1, 40),
    st.tuples(st.integers(0, 3), st.sampled_from([1, 3, 4, 9]), st.sampled_from("ab")),
    max_size=25,
)


def plan_log(
    folder: Path,
    records: Mapping[int, Record],
    *,
    lanes: int = 2,
    case: str = "idu",
    documents: DocumentOptions | None = None,
) -> Path:
    """The ledger of a run over events with these record ids."""
    folder.mkdir(parents=True)
    log = folder / "log.csv"
    log.write_text(HEAD + "".join(line(i, case, *records[i]) for i in sorted(records)))
    work = work_of([log], lanes=lanes, documents=documents)
    root = folder / "ledger"
    root.mkdir()
    commit_plan(work, root, manifest_of(lanes))
    return root


def line(number: int, column: str, key: int, type_: int, value: str) -> str:
    column_name = "" if type_ == 4 else "fname"
    return f"{number},{column}={key},N,{type_},2026-01-01 10:00:00,,usr,{column_name},,{value}\n"


def outcomes_of(root: Path) -> dict[int, tuple[object, ...]]:
    return {
        record.position.high: (record.outcome, record.reason, record.object)
        for record in reader(root).records()
    }


def operations_of(root: Path) -> dict[str, object]:
    """The operations of a run that does not batch."""
    return {
        plain_ids(document.event_id): operation
        for document in reader(root).documents()
        for operation in parse_document(document.text)
    }


def reader(root: Path) -> RunReader:
    run = LedgerRun(root).load()
    assert run is not None
    return RunReader(run)


def expected(first: Mapping[Any, object], second: Mapping[Any, object]) -> Counts:
    both = first.keys() & second.keys()
    same = sum(first[key] == second[key] for key in both)
    return Counts(same, len(both) - same, len(first) - len(both), len(second) - len(both))


@settings(max_examples=25, deadline=None)
@given(RECORDS, RECORDS, st.integers(1, 3))
def test_counts_are_those_of_a_plain_comparison(
    first: dict[int, Record], second: dict[int, Record], lanes: int
) -> None:
    with TemporaryDirectory() as name:
        one = plan_log(Path(name) / "one", first)
        other = plan_log(Path(name) / "other", second, lanes=lanes)
        found, swapped = diff_ledgers(one, other), diff_ledgers(other, one)
        assert found.records == expected(outcomes_of(one), outcomes_of(other))
        assert found.operations == expected(operations_of(one), operations_of(other))
        assert found.moved == swapped.moved == 0
        for kind in ("objects", "records", "operations", "documents"):
            assert getattr(found, kind) == swap(getattr(swapped, kind))
        changes = Counter(each.change for each in found.record_differences)
        assert all(count == 1 for count in changes.values())
        itself = diff_ledgers(one, one)
        assert not itself.differs
        assert itself.records.same == len(first)


def swap(counts: Counts) -> Counts:
    return Counts(counts.same, counts.changed, counts.only_second, counts.only_first)


FEW = {1: (0, 3, "a"), 2: (1, 3, "b"), 3: (2, 4, ""), 4: (0, 9, "a")}


def test_another_case_of_keys_is_a_change_of_the_key(tmp_path: Path) -> None:
    first = plan_log(tmp_path / "first", FEW)
    second = plan_log(tmp_path / "second", FEW, case="IDU")
    found = diff_ledgers(first, second)
    assert found.objects == Counts(0, 3, 0, 0)
    assert found.operations == Counts(0, 3, 0, 0)
    [change] = found.operation_differences
    assert (change.change, change.operations, change.attributes) == ("key", 3, {})
    [of_records] = found.record_differences
    assert of_records.change == "the same outcome, of another object"
    assert found.records == Counts(1, 3, 0, 0)
    assert change.examples[0].first_association == "idu=0,table=usr"
    assert change.examples[0].second_association == "IDU=0,table=usr"


def test_another_operation_is_a_change_of_the_operation(tmp_path: Path) -> None:
    first = plan_log(tmp_path / "first", {1: (0, 1, "a"), 2: (1, 1, "b")})
    second = plan_log(tmp_path / "second", {1: (0, 3, "a"), 2: (1, 1, "b")})
    found = diff_ledgers(first, second)
    assert found.objects == Counts(1, 1)
    [change] = found.operation_differences
    assert (change.change, change.attributes) == ("operation, values", {"fname": 1})
    [example] = change.examples
    assert (example.first, example.second, example.event_id) == ("add", "modify", "log:1")
    [attribute] = example.attributes
    assert (attribute.first, attribute.second) == ("+ a", "- all, + a")


def test_other_batches_are_other_documents_with_the_same_operations(tmp_path: Path) -> None:
    records = {1: (0, 1, "a"), 2: (0, 3, "b"), 3: (0, 1, "c"), 4: (1, 1, "d")}
    first = plan_log(tmp_path / "first", records)
    second = plan_log(tmp_path / "second", records, documents=DocumentOptions(batch_size=3))
    found = diff_ledgers(first, second)
    assert found.operations == Counts(same=4)
    assert found.objects == Counts(1, 1)
    assert found.documents == Counts(1, 1, 2, 0)
    assert found.differs
    assert found.operation_differences == ()


def test_partitions_do_not_change_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = plan_log(tmp_path / "first", {i: (i % 7, 1, "a") for i in range(60)}, lanes=3)
    second = plan_log(tmp_path / "second", {i: (i % 7, 1, "ab"[i % 2]) for i in range(50)})
    whole = diff_ledgers(first, second, 0)
    monkeypatch.setattr(build, "ROWS_OF_PARTITION", 10)
    monkeypatch.setattr(ledger_rows, "TEXT_BYTES", 1)
    parts = diff_ledgers(first, second, 0)
    assert parts == whole
    assert whole.operations.changed == 7


def test_runs_in_hours_are_the_same(tmp_path: Path) -> None:
    sides = []
    for name in ("rows", "hours"):
        (tmp_path / name).mkdir()
        ledger = make_ledgers(tmp_path / name)
        for start in (1, 11, 21, 31):
            finish_run(ledger, range(start, start + 10))
        sides.append(ledger)
    assert close_hours(sides[1], fewest=3)
    found = diff_ledgers(sides[0].root, sides[1].root)
    assert not found.differs
    assert (found.first.runs, found.second.runs) == (4, 4)
    run = diff_ledgers(sides[0].root / "job-000002", sides[1].root / "job-000002")
    assert not run.differs
    assert run.records.same == 10


def test_a_refused_document_is_rejected(tmp_path: Path) -> None:
    sides = []
    for name in ("accepted", "refused"):
        (tmp_path / name).mkdir()
        sides.append(make_ledgers(tmp_path / name))
        finish_run(sides[-1], [1, 2, 3], refused=name == "refused")
    found = diff_ledgers(sides[0].root, sides[1].root)
    assert [each.change for each in found.record_differences] == [
        "published → rejected (too-large)"
    ]
    assert found.documents.same == found.first.documents


def test_moved_documents_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("publisher.ledger.runs.RECORDS_OF_SMALL_RUN", -1)
    root = plan_log(tmp_path / "first", FEW)
    for path in (root / "published").glob("part-*"):
        path.unlink()
    with pytest.raises(UsageError, match=r"documents of run hr-000001 are not in .*published"):
        diff_ledgers(root, root)


def run_command(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["diff", *map(str, arguments)])
    return result.exit_code, result.stdout


def test_the_command_prints_counts_and_examples(tmp_path: Path) -> None:
    first = plan_log(tmp_path / "first", FEW)
    second = plan_log(tmp_path / "second", FEW | {2: (1, 3, "other\u202e<b>"), 5: (1, 4, "")})
    code, text = run_command(first, second)
    assert code == 3
    assert text.splitlines()[2:] == [
        "objects     2 same, 1 changed, 0 only in the first, 0 only in the second",
        "records     4 same, 0 changed, 0 only in the first, 1 only in the second",
        "operations  2 same, 1 changed, 0 only in the first, 1 only in the second",
        "documents   2 same, 1 changed, 0 only in the first, 1 only in the second",
        "",
        "1 record(s): published, only in the second",
        "  5 of hr: idu=1 of usr",
        "",
        "1 operation(s): delete, only in the second",
        "  log:5: delete idu=1,table=usr",
        "",
        "1 operation(s): values",
        "  attributes: 1 fname",
        "  log:2: modify idu=1,table=usr",
        r"    fname: - all, + b → - all, + other\u202e<b>",
    ]
    assert run_command(first, first)[0] == 0


def test_the_command_prints_json(tmp_path: Path) -> None:
    first = plan_log(tmp_path / "first", FEW)
    second = plan_log(tmp_path / "second", FEW | {2: (1, 3, "x" * 2_000_000)})
    code, text = run_command(first, second, "--json", "--examples", "1")
    content = json.loads(text)
    assert code == 3
    assert len(text) < 5_000
    assert content["objects"] == {"same": 2, "changed": 1, "only_first": 0, "only_second": 0}
    [change] = content["operation_differences"]
    assert change["examples"][0]["attributes"][0]["second"].endswith("… (2,000,000 characters)")


def test_a_directory_without_a_ledger_is_refused(tmp_path: Path) -> None:
    root = plan_log(tmp_path / "first", FEW)
    result = CliRunner().invoke(cli, ["diff", str(root), str(tmp_path / "nothing")])
    assert result.exit_code == 2
    assert "has no ledger" in result.output

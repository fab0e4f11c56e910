"""The state of a consumer: read from files, compared with documents."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.consumer.errors import Origin
from publisher.errors import FatalError, UsageError
from publisher.verify.compare import ObjectDocuments, ObjectEvidence
from publisher.verify.consumer_dump import ConsumerState, DumpRow, dump_parts
from publisher.verify.results import BucketOutcome

TEXTS = st.text(max_size=3)
STATES = st.dictionaries(
    st.sampled_from("klmno"),
    st.dictionaries(st.sampled_from("ab"), st.sets(TEXTS, min_size=1, max_size=3)),
    max_size=5,
)
State = dict[str, dict[str, set[str]]]


def rows_of(state: State) -> list[DumpRow]:
    rows = [DumpRow(name, a, tuple(v)) for name, found in state.items() for a, v in found.items()]
    return rows + [DumpRow(name, None, ()) for name in state]


@given(STATES, STATES)
def test_each_object_is_equal_missing_surplus_or_different(ours: State, theirs: State) -> None:
    consumer = ConsumerState()
    for row in rows_of(theirs):
        consumer.add(row)
    result = consumer.compare(ours, 100)
    both = ours.keys() & theirs.keys()
    expected = {
        "missing": ours.keys() - theirs.keys(),
        "surplus": theirs.keys() - ours.keys(),
        "different": {name for name in both if ours[name] != theirs[name]},
    }
    found = {kind: {e.association for e in result.examples if e.kind == kind} for kind in expected}
    assert found == expected
    assert result.equal == len(both) - len(expected["different"])
    for example in result.examples:
        for values in example.attributes:
            assert set(values.documents) == theirs[example.association].get(values.attribute, set())
            assert set(values.table) == ours[example.association].get(values.attribute, set())


@pytest.mark.parametrize(
    ("ours", "theirs", "result"),
    [
        ({}, {"k": {"a": {"x"}}}, "expired"),
        ({}, {"deleted": {"a": {"x"}}}, "surplus"),
        ({"k": {"a": {"x"}}}, {}, "missing"),
        ({"k": {"a": {"x"}}}, {"k": {"a": {"x"}, "b": {"y"}}}, "expired"),
        ({"k": {"a": {"x"}}}, {"k": {"a": {"x", "y"}}}, "expired"),
        ({"k": {"a": {"x"}}}, {"k": {"a": {"y"}, "b": {"y"}}}, "different"),
        ({"k": {"whole": {"x"}}}, {"k": {"whole": {"x", "y"}}}, "different"),
        ({"added": {"a": {"x"}}}, {"added": {"a": {"x"}, "b": {"y"}}}, "different"),
    ],
)
def test_expired_documents_prove_nothing(ours: State, theirs: State, result: str) -> None:
    consumer = ConsumerState()
    for row in rows_of(theirs):
        consumer.add(row)
    evidence = ObjectEvidence(
        {"deleted": ObjectDocuments([Origin("topic", 7)])},
        {"k": {"a": False, "whole": True}},
        has_expired=True,
    )
    found = consumer.compare(ours, 1, evidence)
    assert found.counts == {result: 1}
    assert BucketOutcome(consumer=found).has_findings is (result != "expired")
    if "a" in ours.get("k", {}) and result == "different":
        assert [values.attribute for values in found.examples[0].attributes] == ["a"]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_files_give_their_rows(tmp_path: Path, suffix: str) -> None:
    rows = [DumpRow("k", "a", ("x", "y")), DumpRow("k", "b", ()), DumpRow("l", None, ())]
    path = tmp_path / f"state.{suffix}"
    names = ("object", "attribute", "values")
    content = [dict(zip(names, row, strict=True)) for row in rows]
    if suffix == "jsonl":
        path.write_text("\n".join(json.dumps(each) for each in content) + "\n\n")
    else:
        plain = [{**each, "values": list(each["values"] or ())} for each in content]
        pq.write_table(pa.Table.from_pylist(plain), path, row_group_size=2)
    parts = dump_parts(path)
    assert len(parts) == (1 if suffix == "jsonl" else 2)
    assert [row for part in parts for batch in part.read() for row in batch] == rows


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "2: not JSON"),
        ("[]", "2: not an object of JSON"),
        ('{"attribute": "a"}', "2: .* is no row of a state"),
        ('{"object": "k", "attribute": "a", "values": "x"}', "is no row of a state: write "),
    ],
)
def test_other_lines_are_refused(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "state.jsonl"
    path.write_text(f'{{"object": "k", "attribute": "a", "values": [1, null]}}\n{line}\n')
    (part,) = dump_parts(path)
    with pytest.raises(FatalError, match=problem):
        list(part.read())


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file: name the file"):
        dump_parts(tmp_path)
    path = tmp_path / "state.parquet"
    path.write_text("no")
    with pytest.raises(UsageError, match="is no Parquet file"):
        dump_parts(path)
    pq.write_table(pa.table({"object": ["k"]}), path)
    with pytest.raises(UsageError, match="has no column attribute, values: add it"):
        dump_parts(path)

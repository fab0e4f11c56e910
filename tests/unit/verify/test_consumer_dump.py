"""The state of a consumer: read from files, compared with documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.consumer.errors import Origin
from publisher.errors import FatalError
from publisher.verify.compare import ObjectDocuments, ObjectEvidence
from publisher.verify.consumer_dump import ConsumerState, DumpRow, read_dump
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


def test_files_give_their_rows(tmp_path: Path) -> None:
    rows = [DumpRow("k", "a", ("x", "y")), DumpRow("k", "b", ()), DumpRow("l", None, ())]
    path = tmp_path / "state.jsonl"
    lines = (
        json.dumps(dict(zip(("object", "attribute", "values"), row, strict=True))) for row in rows
    )
    path.write_text("\n".join(lines) + "\n\n")
    assert [row for batch in read_dump(path) for row in batch] == rows


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
    with pytest.raises(FatalError, match=problem):
        list(read_dump(path))

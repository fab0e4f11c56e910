"""A report joined with what the sink refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.dispatch.refusals import (
    DispatchRecord,
    Refusal,
    RefusalReason,
    apply_refusals,
    read_record,
    read_records,
)
from publisher.errors import FatalError
from publisher.ledger.conservation import RunReport, SourceCounts, outcome_counts
from publisher.ledger.runs import LedgerRun
from publisher.model.change import Outcome
from tests.support.ledgers import commit_run, documents


def counts(**given: int) -> dict[str, int]:
    return outcome_counts(()) | given


def report(hr: int, crm: int, **of_rejected: int) -> RunReport:
    """A run of two sources with so many published records."""
    rejected = sum(of_rejected.values())
    sources = (
        SourceCounts("hr", hr + rejected + 1, counts(published=hr, rejected=rejected, held=1)),
        SourceCounts("crm", crm, counts(published=crm)),
    )
    return RunReport(
        run="job-000001",
        state="published",
        ledger="",
        target="",
        read=hr + crm + rejected + 1,
        outcomes=counts(published=hr + crm, rejected=rejected, held=1),
        reasons={"held": {"future": 1}} | ({"rejected": of_rejected} if of_rejected else {}),
        sources=sources,
        documents=hr + crm,
        operations={},
        bytes=0,
    )


def refusal(source: str, *ids: int, reason: str = RefusalReason.TOO_LARGE) -> Refusal:
    texts = [str(number) for number in ids]
    return Refusal(0, ids[0], source, texts[0], ",".join(texts), reason, "make it smaller")


def test_without_refusals_it_is_the_same() -> None:
    refused = report(3, 2)
    assert apply_refusals(refused, ()) is refused


def test_records_of_refused_documents_are_rejected_and_not_published() -> None:
    refused = report(10, 5, key=2)
    found = apply_refusals(refused, [refusal("hr", 4, 5, 6), refusal("crm", 1), refusal("hr", 9)])
    assert found.outcomes == counts(published=10, rejected=7, held=1)
    assert found.reasons == {"held": {"future": 1}, "rejected": {"key": 2, "too-large": 5}}
    assert [source.outcomes for source in found.sources] == [
        counts(published=6, rejected=6, held=1),
        counts(published=4, rejected=1),
    ]
    assert found.rejected == 7
    assert refused == report(10, 5, key=2)  # is not changed


@given(
    st.lists(
        st.tuples(st.sampled_from(["hr", "crm"]), st.integers(1, 5), st.sampled_from("xy")),
        max_size=12,
    ),
    st.integers(0, 3),
)
def test_nothing_is_lost(refused: Sequence[tuple[str, int, str]], rejected: int) -> None:
    of_rejected = {"x": rejected} if rejected else {}
    report_ = report(60, 60, **of_rejected)
    found = apply_refusals(
        report_, [refusal(name, *range(n), reason=why) for name, n, why in refused]
    )
    assert sum(found.outcomes.values()) == found.read == report_.read
    for before, after in zip(report_.sources, found.sources, strict=True):
        assert sum(after.outcomes.values()) == after.read == before.read
    for outcome in Outcome:
        name = outcome.label
        assert found.outcomes[name] == sum(source.outcomes[name] for source in found.sources)
    assert sum(found.reasons.get("rejected", {}).values()) == found.rejected


def record(*refusals: Refusal) -> DispatchRecord:
    return DispatchRecord("job-000001", "plan", "kafka://a:1/t", ("t",), 1_000, 2_000, refusals)


@pytest.fixture
def run(tmp_path: Path) -> LedgerRun:
    return commit_run(tmp_path, [documents(9)])[0]


def test_each_sink_has_its_record(run: LedgerRun) -> None:
    one = record(refusal("hr", 1, 2), replace(refusal("crm", 7), lane=3))
    other = replace(record(refusal("hr", 3)), target="kafka://b:1/t")
    one.write(run, "one")
    other.write(run, "other")
    assert read_record(run, "one") == one
    assert read_record(run, "other") == other
    assert read_record(run, "third") is None
    assert {entry.target for entry in read_records(run.texts())} == {one.target, other.target}
    assert [set(one.of_lane(lane)) for lane in range(4)] == [{1}, set(), set(), {7}]


def test_refusals_of_documents_that_are_sent_are_omitted() -> None:
    entries = [refusal("hr", 1, 2), replace(refusal("hr", 4), document=5), refusal("crm", 7)]
    one = record(*(replace(e, lane=n) for e, n in zip(entries, (0, 0, 3), strict=True)))
    assert one.after({}) == one
    assert one.after({0: 5}) == replace(one, refusals=one.refusals[1:])
    assert one.after({0: 6, 3: 9}).refusals == ()


def test_a_record_without_refusals_is_written_only_to_replace_one(run: LedgerRun) -> None:
    record().write(run, "one")
    assert read_record(run, "one") is None
    assert not run.texts()
    record(refusal("hr", 1)).write(run, "one")
    record().write(run, "one")
    assert read_record(run, "one") == record()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is damaged: restore it, or remove it and send with --again"),
        ("[]", "is damaged"),
        ('{"format": 3}', "is damaged"),
        ('{"format": 1}', "has format 1, this program reads format 3"),
        ('{"format": 9}', "has format 9, this program reads format 3"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused(
    run: LedgerRun, content: str, message: str
) -> None:
    record(refusal("hr", 1)).write(run, "one")
    (name,) = run.texts()
    run.write_text(name, content)
    with pytest.raises(FatalError, match=message):
        read_record(run, "one")

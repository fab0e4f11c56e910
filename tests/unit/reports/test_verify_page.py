"""The page of a verification: complete, escaped, and nothing is loaded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lxml import html

from publisher.reports.verify_page import render_verification
from publisher.runs.verify import VerifyReport
from publisher.verify.results import (
    AttributeValues,
    BucketOutcome,
    ConsumerResult,
    Example,
    TableResult,
    UnreadableDocument,
)

HOSTILE = "</style><script>alert(1)</script>\x1b[31m"


def page_of(outcome: BucketOutcome) -> str:
    return render_verification(VerifyReport("hr", "out", outcome), datetime(2026, 5, 4, tzinfo=UTC))


def test_the_page_shows_results_and_examples() -> None:
    values = AttributeValues("fname", ("Jim",), ())
    example = Example("different", "idu=1,table=usr", (values,), "xds/0:7")
    table = TableResult(
        "usr", 7, {"different": 1, "unsettled": 2}, {"fname": 1}, examples=(example,)
    )
    consumer = ConsumerResult(3, {"missing": 1}, (Example("missing", "idu=2,table=usr"),))
    outcome = BucketOutcome((table,), 12, uncompared={"old": 4}, consumer=consumer)
    tree: Any = html.fromstring(page_of(outcome))
    text = " ".join(tree.text_content().split())
    assert "Verification of hr" in text
    assert "12 documents in out" in text
    tiles = [tile.text_content() for tile in tree.xpath("//section[@class='tiles']/div")]
    assert tiles == ["7equal", "1different", "2unsettled"]
    assert "different idu=1,table=usr last document xds/0:7" in text
    assert "fname: Jim in the documents, (none) in the table" in text
    assert "missing idu=2,table=usr" in text
    assert "4 published objects, no table to compare with" in text


def test_hostile_values_are_escaped_and_nothing_is_loaded() -> None:
    values = AttributeValues(HOSTILE, (HOSTILE,), (HOSTILE,))
    table = TableResult(
        HOSTILE, 0, {"surplus": 1}, examples=(Example("surplus", HOSTILE, (values,)),)
    )
    unreadable = (UnreadableDocument(HOSTILE, HOSTILE),)
    page = page_of(BucketOutcome((table,), 1, 0, 1, unreadable, {HOSTILE: 1}))
    tree: Any = html.fromstring(page)
    assert not tree.xpath("//script | //img | //link | //@src | //@href")
    assert "\x1b" not in page
    policy = tree.xpath("//meta[@http-equiv]/@content")[0]
    assert policy.startswith("default-src 'none'")

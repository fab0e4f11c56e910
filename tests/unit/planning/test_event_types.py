"""Each event type gives the operation that the driver's guide says."""

from __future__ import annotations

import re

import pytest

from publisher.planning.query_back import CurrentRow
from publisher.xds.document import DocumentOptions
from publisher.xds.operations import InsertQueryBack
from tests.support.planning import USR, Event, Rows, Setup, log

ADD = '<add-attr attr-name="c">@N</add-attr>'
REPLACE = '<modify-attr attr-name="c"><remove-all-values/><add-value>@N</add-value></modify-attr>'
EMPTY = '<modify-attr attr-name="c"><remove-all-values/></modify-attr>'
UPDATE = '<modify-attr attr-name="c"><remove-value>@O</remove-value><add-value>@N</add-value></modify-attr>'


def element(text: str) -> str:
    """The expected element, with whole values for their letters."""
    return re.sub("@(.)", r'<value type="string">\1</value>', text.replace('"c"', '"a"'))


@pytest.mark.parametrize(
    ("event_type", "insert", "old", "new", "kind", "text"),
    [
        (1, "modify", None, "N", "add", ADD),
        (1, "modify", None, None, "add", ""),
        (2, "modify", "O", "N", "modify", UPDATE),
        (2, "modify", None, "N", "modify", UPDATE.replace("<remove-value>@O</remove-value>", "")),
        (2, "modify", "O", None, "modify", UPDATE.replace("<add-value>@N</add-value>", "")),
        (2, "modify", None, None, "modify", ""),
        (3, "modify", "O", "N", "modify", REPLACE),
        (3, "modify", "O", None, "modify", EMPTY),
        (4, "modify", "O", "N", "delete", ""),
        (5, "modify", None, "N", "modify", REPLACE),
        (5, "modify", None, None, "modify", EMPTY),
        (5, "add", None, "N", "add", ADD),
        (5, "add", None, None, "add", ""),
        (6, "modify", None, "N", "modify", REPLACE),
        (6, "add", None, None, "modify", EMPTY),
        (7, "modify", None, "N", "modify", REPLACE),
        (7, "add", None, "N", "add", ADD),
        (7, "add", None, None, "add", ""),
        (8, "modify", None, "N", "modify", REPLACE),
        (8, "add", None, None, "modify", EMPTY),
    ],
)
def test_each_event_type_gives_what_the_table_says(
    event_type: int, insert: InsertQueryBack, old: str | None, new: str | None, kind: str, text: str
) -> None:
    row = CurrentRow(("idu", "a"), ("1", new))
    planned = Setup(
        documents=DocumentOptions(insert_query_back=insert), lookup=Rows({USR: row})
    ).plan(log(Event(event_type, "a", new, old)))
    if kind == "modify" and not text:
        assert [decision.reason for decision in planned.decisions] == ["nothing-to-publish"]
        return
    (document,) = planned.documents
    found = re.search("</association>(.*)</[a-z]+></input>", document.text)
    assert found is not None
    assert (document.operation, found[1]) == (kind, element(text))

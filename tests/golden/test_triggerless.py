"""Two exports of a table to documents, against a golden typed from the rules.

``triggerless/before`` and ``triggerless/now`` were written by hand, and so were the documents: a hash
that has changed gives event type 3 for its column, a value that has changed type 2.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from publisher.config.job_file import load
from publisher.runs.publish import publish as publish_job
from tests.support.compared_jobs import operations_of
from tests.support.local_engine import EngineSwitch

HERE = Path(__file__).parent / "triggerless"
JOB = """
[[sources]]
format = "triggerless"
snapshots = ["{here}/now"]
before = ["{here}/before"]
binary_text = "hex"
state = "{state}"
[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string", lname = "string", photo = "octet" }}
[run]
lanes = 1
[dispatch]
path = "out"
"""

NEW = (
    '<add class-name="usr"><association>idu=6,table=usr</association>'
    '<add-attr attr-name="fname"><value type="string">Fay</value></add-attr>'
    '<add-attr attr-name="lname"><value type="string">a&lt;b</value></add-attr>'
    '<add-attr attr-name="photo"><value type="octet">AP8=</value></add-attr></add>'
)
EMPTY = '<add class-name="usr"><association>idu=7,table=usr</association></add>'
GONE = '<delete class-name="usr"><association>idu=2,table=usr</association></delete>'
HASHED = {
    "idu=1": '<modify-attr attr-name="lname"><remove-all-values/>'
    '<add-value><value type="string">Lea</value></add-value></modify-attr>',
    "idu=3": '<modify-attr attr-name="lname"><remove-all-values/>'
    '<add-value><value type="string"/></add-value></modify-attr>',
    "idu=5": '<modify-attr attr-name="fname"><remove-all-values/></modify-attr>'
    '<modify-attr attr-name="photo"><remove-all-values/></modify-attr>',
}
WITH_VALUES = {
    "idu=1": '<modify-attr attr-name="lname"><remove-value><value type="string">Lee</value>'
    '</remove-value><add-value><value type="string">Lea</value></add-value></modify-attr>',
    "idu=3": '<modify-attr attr-name="lname">'
    '<add-value><value type="string"/></add-value></modify-attr>',
    "idu=5": '<modify-attr attr-name="fname"><remove-value><value type="string">Eve</value>'
    '</remove-value></modify-attr><modify-attr attr-name="photo"><remove-value>'
    '<value type="octet">/w==</value></remove-value></modify-attr>',
}


@pytest.mark.parametrize(("state", "changed"), [("columns", HASHED), ("values", WITH_VALUES)])
def test_the_differences_of_two_exports(
    tmp_path: Path, local_engine: EngineSwitch, state: str, changed: dict[str, str]
) -> None:
    (tmp_path / "job.toml").write_text(JOB.format(here=HERE, state=state))
    report = publish_job(load(tmp_path / "job.toml"))
    got = sorted(
        etree.tostring(op, encoding="unicode", with_tail=False)
        for op in operations_of(report, tmp_path)
    )
    modified = [
        f'<modify class-name="usr"><association>{key},table=usr</association>{parts}</modify>'
        for key, parts in changed.items()
    ]
    assert got == sorted([NEW, EMPTY, GONE, *modified])
    assert report.reasons == {"ignored": {"unchanged": 1}}

r"""Empty, ``""``, ``NULL`` and ``"NULL"`` are four different fields.

Empty and NULL fields were merged, or quoted NULL words became NULL. An unquoted empty field is NULL, a
quoted one is empty text, and only an unquoted mark of ``null_text`` is NULL: COPY of PostgreSQL has the
same rule.
"""

from __future__ import annotations

import pytest

from publisher.consumer import Modify
from tests.support.workbench import COLUMNS, Workbench, removed, texts

ROW = "{n},idu={n},N,2,2026-05-01 10:00:00,,usr,fname,{old},{new}\n"


def published(
    bench: Workbench, fields: list[tuple[str, str]], settings: str = ""
) -> dict[str, tuple[list[str], list[str]]]:
    rows = [ROW.format(n=n, old=old, new=new) for n, (old, new) in enumerate(fields, 1)]
    bench.write("log.csv", ",".join(COLUMNS) + "\n" + "".join(rows))
    bench.write("job.toml", f'[[sources]]\nsnapshots = ["log.csv"]\n{settings}\n')
    bench.replay("log.csv", "-c", "job.toml")
    return {
        op.association.partition(",")[0]: (removed(op, "fname"), texts(op, "fname"))
        for op in bench.operations()
        if isinstance(op, Modify)
    }


def test_an_empty_field_is_null_and_a_quoted_one_is_empty_text(bench: Workbench) -> None:
    assert published(bench, [("", '""'), ('""', ""), ("NULL", '"NULL"')]) == {
        "idu=1": ([], [""]),
        "idu=2": ([""], []),
        "idu=3": (["NULL"], ["NULL"]),
    }


@pytest.mark.parametrize("mark", ["NULL", r"\N"])
def test_only_an_unquoted_mark_is_null(bench: Workbench, mark: str) -> None:
    fields = [(mark, f'"{mark}"'), (f'"{mark}"', mark), (mark, "x")]
    assert published(bench, fields, f"null_text = '{mark}'") == {
        "idu=1": ([], [mark]),
        "idu=2": ([mark], []),
        "idu=3": ([], ["x"]),
    }


def test_an_empty_text_is_no_number(bench: Workbench) -> None:
    row = '1,idu=1,N,3,2026-05-01 10:00:00,,usr,age,,""\n'
    bench.write("log.csv", ",".join(COLUMNS) + "\n" + row)
    bench.write(
        "job.toml",
        '[[sources]]\nsnapshots = ["log.csv"]\n[tables.usr]\ncolumns = { age = "int" }\n',
    )
    bench.replay("log.csv", "-c", "job.toml")
    assert [reject.reason for reject in bench.rejects()] == ["value"]
    assert bench.lines() == []


def test_compared_files_tell_empty_text_from_null(bench: Workbench) -> None:
    bench.write(
        "job.toml",
        """
[[sources]]
name = "cmp"
format = "triggerless"
snapshots = ["in"]
key = { usr = ["idu"] }
[dispatch]
path = "out"
""",
    )
    bench.write("in/usr.csv", 'idu,fname\n1,""\n2,x\n')
    bench.publish()
    assert bench.objects() == {
        "idu=1,table=usr": {"fname": ("",)},
        "idu=2,table=usr": {"fname": ("x",)},
    }
    bench.write("in/usr.csv", 'idu,fname\n1,\n2,""\n')
    bench.publish()
    assert bench.objects() == {"idu=1,table=usr": {}, "idu=2,table=usr": {"fname": ("",)}}

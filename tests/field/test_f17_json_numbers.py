r"""Numbers of JSON keep their digits, and its texts their order and escapes.

Integers above 2^53 were rounded on the way through JSON, and an escaped NUL stopped a load. The program
takes numbers as written; XML 1.0 forbids U+0000, but the six characters ``\u0000`` are plain ASCII.
"""

from __future__ import annotations

import pytest

from tests.field.ways import install, write_comparison, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

LINE = (
    '{{"record_id": {id}, "table_key": "idu={key}", "status": "N", "event_type": 3,'
    ' "event_time": "2026-05-01 10:00:00", "table_name": "usr", "column_name": "fname",'
    ' "new_value": {value}{more}}}\n'
)
TEXT = r'{"b":1,"a":9007199254740993,"a":2,"z":"\u0000"}'


def test_json_lines_keep_numbers_as_written(bench: Workbench) -> None:
    lines = [
        LINE.format(id=9007199254740993, key=1, value='"big id"', more=""),
        LINE.format(id=2, key=2, value="12345678901234567890.10", more=""),
        LINE.format(id=3, key=3, value=r'"\u0000"', more=""),
        LINE.format(id=4, key=4, value='"twice"', more=', "status": "N"'),
        LINE.format(id=5, key=5, value='"plain"', more=""),
    ]
    bench.write("log.jsonl", "".join(lines))

    bench.replay("log.jsonl")

    assert bench.objects() == {
        "idu=1,table=usr": {"fname": ("big id",)},
        "idu=2,table=usr": {"fname": ("12345678901234567890.10",)},
        "idu=5,table=usr": {"fname": ("plain",)},
    }
    rejects = {reject.position: reject.reason for reject in bench.rejects()}
    assert sorted(rejects.values()) == ["broken-record", "forbidden-character"]
    story = bench.run("explain", "out", "9007199254740993")
    assert "idu=1" in story.out


def test_json_columns_are_the_text_that_the_database_prints(
    bench: Workbench, postgres: Place
) -> None:
    postgres.execute("CREATE TABLE doc (id int PRIMARY KEY, j json, b jsonb)")
    install(bench, postgres, "doc")
    postgres.execute(
        rf"""INSERT INTO doc VALUES (1, '{TEXT}', '{{"b":1,"a":9007199254740993,"a":2}}')""",
        "INSERT INTO event_log (table_key, event_type, table_name) VALUES ('id=1', 6, 'public.doc')",
    )
    expected = {"j": (TEXT,), "b": ('{"a": 2, "b": 1}',)}

    bench.publish(job=write_log_job(bench, postgres))
    bench.publish(job=write_comparison(bench, postgres, ["doc"]))

    for place in ("job-out", "compared-out"):
        assert list(bench.objects(place).values()) == [expected]
    assert bench.verify(job="job.toml").code == 0

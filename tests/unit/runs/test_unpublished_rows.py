"""Rows of compared tables whose changes were rejected: consumers get them once they are corrected."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.consumer import Objects, part_files, read_files
from publisher.formats.migration import Migration
from publisher.runs.migrate import migrate
from publisher.runs.publish import publish as publish_job
from tests.support.compared_jobs import Row, publish, table_row, write_job, write_table
from tests.support.local_engine import EngineSwitch
from tests.support.retried_rejects import export_all, invoke, retry

pytestmark = pytest.mark.usefixtures("local_engine")
STATES = ("columns", "values")
BAD = "a\x01"
"""A value that XML forbids."""


def consumed(base: Path) -> dict[str, dict[str, str]]:
    """The values of the objects of a consumer, by key."""
    objects = Objects()
    objects.apply_all(read_files(part_files(base / "out")))
    return {
        name.partition(",")[0].partition("=")[2]: {
            column: value.text for column, (value,) in known.attributes.items()
        }
        for name, known in objects.items()
    }


def expect(expected: dict[str, dict[str, str]], rows: list[Row]) -> None:
    """Applies the rows of a comparison that can be published."""
    for key in expected.keys() - {row["idu"] for row in rows}:
        del expected[key]
    for row in rows:
        if BAD not in row.values():
            values = {name: row[name] or "" for name in ("fname", "lname") if row[name] is not None}
            expected[str(row["idu"])] = values


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("seed", range(3))
def test_consumers_have_the_last_row_that_could_be_published(
    tmp_path: Path, state: str, seed: int
) -> None:
    chance = random.Random(seed)
    expected: dict[str, dict[str, str]] = {}
    more = f'state = "{state}"'
    rows = {n: table_row(n) for n in range(1, 9)}
    for run in range(12):
        for n in chance.sample(range(1, 9), 3):
            values = (chance.choice(["Ann", "Bob", BAD]), chance.choice([None, "x", "y"]))
            if chance.random() < 0.2:
                rows.pop(n, None)
            else:
                rows[n] = table_row(n, *values)
        table = [row for _, row in sorted(rows.items())]
        write_table(tmp_path, table)
        publish(tmp_path, more)
        expect(expected, table)
        assert consumed(tmp_path) == expected, run


def correct_in_two_runs(base: Path, more: str) -> None:
    """An insert, an update and a delete are rejected, or come after rejected changes."""
    write_table(base, [table_row(1), table_row(2, BAD, "x"), table_row(3)])
    publish(base, more)
    write_table(base, [table_row(1, BAD, "y"), table_row(2, BAD, "x"), table_row(3, BAD)])
    report = publish(base, more)
    assert (report.rejected, report.reasons["ignored"]) == (2, {"unchanged": 1})
    write_table(base, [table_row(1, "Eve", "y"), table_row(2, "Bob", "x")])
    assert publish(base, more).operations == {"modify": 1, "add": 1, "delete": 1}
    assert consumed(base) == {
        "1": {"fname": "Eve", "lname": "y"},
        "2": {"fname": "Bob", "lname": "x"},
    }
    assert publish(base, more).documents == 0


@pytest.mark.parametrize("state", STATES)
def test_corrected_rows_are_published_as_what_they_are_for_consumers(
    tmp_path: Path, state: str
) -> None:
    correct_in_two_runs(tmp_path, f'state = "{state}"\nbuckets = 4')


def test_corrected_rows_are_published_through_spark(
    tmp_path: Path, local_engine: EngineSwitch, spark: object
) -> None:
    local_engine.use_spark()
    correct_in_two_runs(tmp_path, 'state = "values"')


def test_rejected_rows_are_corrected_in_their_tables(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1, BAD), table_row(2)])
    publish(tmp_path)
    assert export_all(tmp_path) == []
    noted = invoke(tmp_path, "rejects", "--export", tmp_path / "other.jsonl").stderr
    assert "row of a compared table; correct it there" in noted
    refused = retry(tmp_path, [{"id": "job-000001:0:1", "source": "hr", "raw": {"idu": "1"}}])
    assert refused.exit_code == 2
    assert "hr compares tables: correct the row in its table" in refused.stderr


def test_migrations_leave_unpublished_rows_of_other_keys(tmp_path: Path) -> None:
    write_table(tmp_path, [table_row(1), table_row(2, BAD, "x"), table_row(3, BAD, "x")])
    publish(tmp_path)
    settings = load(write_job(tmp_path))
    assert migrate(settings, Migration(keys=("idu=1",))).operations == {"add": 1}
    assert migrate(settings, Migration(keys=("idu=2",))).rejected == 1
    write_table(tmp_path, [table_row(1), table_row(2, "Bob", "x"), table_row(3, "Eve", "x")])
    assert migrate(settings, Migration(keys=("idu=3",))).operations == {"add": 1}
    assert publish(tmp_path).operations == {"add": 1}
    assert consumed(tmp_path)["2"] == {"fname": "Bob", "lname": "x"}


def test_tables_that_are_not_compared_keep_their_unpublished_rows(tmp_path: Path) -> None:
    more = '[tables.dep]\nkey = ["idu"]\n'
    write_table(tmp_path, [table_row(1, BAD, "x")])
    write_table(tmp_path, [table_row(1)], "dep.csv")
    publish(tmp_path, rest=more)
    write_table(tmp_path, [table_row(2)], "dep.csv")
    publish(tmp_path, rest=more)
    write_table(tmp_path, [table_row(1, "Ann", "x")])
    assert publish(tmp_path, rest=more).operations == {"add": 1}


def test_an_object_whose_new_key_was_rejected_keeps_its_old_one(tmp_path: Path) -> None:
    more = (
        'state = "values"\nkey_change = "modify-association"\nkey_change_by = { usr = ["lname"] }'
    )
    types = '[tables.usr]\nkey = ["idu"]\n[run]\nlanes = 1\n[dispatch]\npath = "out"\n'
    job = tmp_path / "job.toml"
    job.write_text(
        f'[[sources]]\nname = "hr"\nformat = "triggerless"\nsnapshots = ["in"]\n{more}\n{types}'
    )

    def run(*rows: Row) -> dict[str, int]:
        write_table(tmp_path, rows)
        return dict(publish_job(load(job)).operations)

    run(table_row("a", "Ann", "guid 1"), table_row("b", "Bob", "guid 2"))
    assert run(table_row("c\x01", "Eve", "guid 1"), table_row("d", BAD, "guid 2")) == {
        "modify-association": 1
    }
    assert consumed(tmp_path)["a"] == {"fname": "Ann", "lname": "guid 1"}
    assert run(table_row("c", "Eve", "guid 1"), table_row("d", "Bob", "guid 2")) == {
        "modify-association": 1,
        "modify": 1,
    }
    assert consumed(tmp_path) == {
        "c": {"fname": "Eve", "lname": "guid 1"},
        "d": {"fname": "Bob", "lname": "guid 2"},
    }

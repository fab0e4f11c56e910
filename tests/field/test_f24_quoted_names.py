"""Names with dots, quotes, blanks and reserved words are names.

Splitting at the first dot or quoting twice produced wrong SQL for legal quoted names. A quoted
identifier of SQL may hold any character but U+0000.
"""

from __future__ import annotations

import pytest

from tests.field.ways import install, write_comparison, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long

COLUMNS = ["select", "Größe", "a b", 'x"y', "100%"]
VALUES = {name: (f"v{n}",) for n, name in enumerate(COLUMNS)}


def test_exact_names_are_published_in_postgresql(bench: Workbench, postgres: Place) -> None:
    quoted = ", ".join('"' + name.replace('"', '""') + '" text' for name in COLUMNS)
    table = '"My.Schema"."Order Lines.2026"'
    postgres.execute(
        'CREATE SCHEMA "My.Schema"', f'CREATE TABLE {table} ("order" int PRIMARY KEY, {quoted})'
    )
    try:
        install(bench, postgres, table)
        values = ", ".join(f"'{value}'" for (value,) in VALUES.values())
        postgres.execute(f"INSERT INTO {table} VALUES (1, {values})")
        bench.publish(job=write_log_job(bench, postgres))
        bench.publish(job=write_comparison(bench, postgres, [table]))
        for place in ("job-out", "compared-out"):
            ((key, values_found),) = bench.objects(place).items()
            assert values_found == VALUES
            assert key.startswith("order=1,table=")
            (operation,) = bench.operations(place)
            assert operation.class_name == "Order Lines.2026"  # type: ignore[union-attr]
        assert bench.verify(job="job.toml").code == 0
    finally:
        postgres.execute('DROP SCHEMA "My.Schema" CASCADE')


def test_exact_names_are_published_in_mariadb(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute("CREATE TABLE `a.b` (`order` int PRIMARY KEY, `x``y` varchar(9), `100%` int)")
    install(bench, mariadb, '"a.b"')
    mariadb.execute("INSERT INTO `a.b` VALUES (1, 'v', 5)")
    bench.publish(job=write_log_job(bench, mariadb))
    bench.publish(job=write_comparison(bench, mariadb, ['"a.b"']))
    for place in ("job-out", "compared-out"):
        assert list(bench.objects(place).values()) == [{"x`y": ("v",), "100%": ("5",)}]
    assert bench.verify(job="job.toml").code == 0

"""One number with many spellings is one key.

Trailing zeros made equal decimals different keys, and small decimals were printed with exponents. SQL
compares numbers by value; PostgreSQL never prints an exponent for ``numeric``.
"""

from __future__ import annotations

from publisher.consumer import Add, Modify
from tests.field.ways import install, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

SPELLINGS = ("1", "1.0", "1.00", "01.0", "1e0")


def test_every_spelling_of_a_number_is_one_object(bench: Workbench, postgres: Place) -> None:
    postgres.execute("CREATE TABLE price (code numeric(10,2) PRIMARY KEY, v numeric(20,10))")
    install(bench, postgres, "price")
    postgres.execute("INSERT INTO price VALUES (1, 0), (2.5, 0.0000001)")
    for number, spelling in enumerate((*SPELLINGS, "+1"), 1):
        postgres.execute(
            "INSERT INTO event_log (table_key, event_type, table_name, column_name, new_value)"
            f" VALUES ('code={spelling}', 3, 'public.price', 'v', '{number}.5')"
        )
    job = write_log_job(bench, postgres)

    report = bench.publish(job=job)

    objects = bench.objects("job-out")
    one, two = sorted(objects)
    assert one.startswith("code=1")
    assert objects[two] == {"v": ("0.0000001000",)}
    operations = bench.operations("job-out")
    assert len({op.association for op in operations if isinstance(op, Add | Modify)}) == 2
    assert [reject.reason for reject in bench.rejects("job-out")] in ([], ["table-key"])
    assert report["outcomes"]["rejected"] == len(bench.rejects("job-out"))

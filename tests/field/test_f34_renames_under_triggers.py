"""A rename under installed triggers is seen.

After a rename triggers silently stopped firing, logged the old name, or made every write fail. Events
are logged under the real names, or the write fails visibly, or ``check`` names the stale triggers.
"""

from __future__ import annotations

import pytest

from publisher.consumer import Add
from tests.field.ways import install, write_log_job
from tests.services.databases import Place
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long


def test_a_renamed_column_is_logged_by_its_name_or_named(bench: Workbench, place: Place) -> None:
    place.execute("CREATE TABLE usr (idu int PRIMARY KEY, fname varchar(20), lname varchar(20))")
    install(bench, place, "usr")
    place.execute("INSERT INTO usr VALUES (1, 'a', 'b')")
    job = write_log_job(bench, place)
    bench.publish(job=job)
    place.execute(
        "ALTER TABLE usr RENAME COLUMN lname TO surname",
        "ALTER TABLE usr ADD COLUMN lname varchar(20)",
    )
    checked = bench.run("check", "-c", job, codes=[0, 3])
    place.execute("UPDATE usr SET surname = 'SURNAME', lname = 'LNAME'")
    bench.publish(job=job)
    ((_, values),) = bench.objects("job-out").items()
    right = values.get("surname") == ("SURNAME",) and values.get("lname") == ("LNAME",)
    assert right or (checked.code == 3 and "usr" in checked.text)
    assert "SURNAME" not in values.get("lname", ())

    install(bench, place, "usr")
    assert bench.run("check", "-c", job, codes=[0, 3]).code == 0
    place.execute("UPDATE usr SET surname = 'S2', lname = 'L2'")
    bench.publish(job=job)
    ((_, values),) = bench.objects("job-out").items()
    assert values["surname"][-1] == "S2"
    assert values["lname"][-1] == "L2"


def test_a_renamed_table_is_logged_once_after_ddl(bench: Workbench, place: Place) -> None:
    place.execute("CREATE TABLE usr (idu int PRIMARY KEY, fname varchar(20))")
    install(bench, place, "usr")
    job = write_log_job(bench, place)
    bench.publish(job=job)
    place.execute("ALTER TABLE usr RENAME TO member")
    install(bench, place, "member")
    place.execute("INSERT INTO member VALUES (1, 'a')")
    assert len(place.query("SELECT record_id FROM event_log")) == 1
    report = bench.publish(job=job)
    assert report["outcomes"] | {"published": 0} == dict.fromkeys(report["outcomes"], 0)
    place.execute("CREATE TABLE usr (idu int PRIMARY KEY, other varchar(20))")
    install(bench, place, "usr", "member")
    place.execute("INSERT INTO usr VALUES (5, 'x')", "INSERT INTO member VALUES (2, 'b')")
    bench.publish(job=job)
    classes = sorted(
        (op.class_name, key(op)) for op in bench.operations("job-out") if isinstance(op, Add)
    )
    assert classes == [("member", "idu=1"), ("member", "idu=2"), ("usr", "idu=5")]


def key(operation: Add) -> str:
    return operation.association.partition(",")[0]

"""Unsigned numbers of 64 bits keep their digits.

Values above 2^63-1 were emitted as negative numbers without any error. The range of BIGINT UNSIGNED, and
of INTEGER(64, false) in Parquet, ends at 2^64-1; a record id is a positive signed number.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tests.field.ways import publish_each_way
from tests.services.databases import Place
from tests.support.workbench import Workbench, event, log_file

GREATEST, MIDDLE = 2**64 - 1, 2**63


def test_every_way_has_the_exact_digits(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute("CREATE TABLE big (id bigint unsigned PRIMARY KEY, n bigint unsigned)")
    rows = [f"INSERT INTO big VALUES ({GREATEST}, {MIDDLE})", "INSERT INTO big VALUES (0, 1)"]
    found = publish_each_way(bench, mariadb, "big", rows, [f"id={GREATEST}", "id=0"])
    for way, objects in found.items():
        assert objects == {f"id={GREATEST}": {"n": (str(MIDDLE),)}, "id=0": {"n": ("1",)}}, way


def test_parquet_has_the_exact_digits(bench: Workbench) -> None:
    bench.write("in/.keep", "")
    numbers = pa.table(
        {"id": pa.array([GREATEST, 0], pa.uint64()), "n": pa.array([MIDDLE, 1], pa.uint64())}
    )
    pq.write_table(numbers, bench.folder / "in" / "big.parquet")
    bench.write(
        "job.toml",
        """
[[sources]]
name = "cmp"
format = "triggerless"
snapshots = ["in"]
key = { big = ["id"] }
[dispatch]
path = "out"
""",
    )
    bench.publish()
    assert bench.objects() == {
        f"id={GREATEST},table=big": {"n": (str(MIDDLE),)},
        "id=0,table=big": {"n": ("1",)},
    }


def test_a_record_id_beyond_its_range_is_rejected(bench: Workbench) -> None:
    events = [
        event("idu=1", 3, "fname", new="a", record_id=MIDDLE),
        event("idu=2", 3, "fname", new="b", record_id=MIDDLE - 1),
    ]
    bench.write("log.csv", log_file(events))
    bench.replay("log.csv")
    assert bench.objects() == {"idu=2,table=usr": {"fname": ("b",)}}
    assert [reject.reason for reject in bench.rejects()] == ["record-id"]

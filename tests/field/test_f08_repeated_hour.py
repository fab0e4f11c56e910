"""The hour that comes twice names two instants, and the one that never comes none.

Snapshot and change path showed the same row one hour apart, and a skipped local time made statements
fail. MariaDB stores a TIMESTAMP as an instant. For texts without a zone the first occurrence counts, and
a time of the skipped hour is as far after the change as its clock says.
"""

from __future__ import annotations

from tests.field.ways import assert_one_way, publish_each_way
from tests.services.databases import Place
from tests.support.workbench import Workbench, event, log_file

ROWS = [
    "SET SESSION time_zone = '+00:00'",
    "INSERT INTO stamp VALUES (1, '2025-10-26 00:30:00', 1)",
    "INSERT INTO stamp VALUES (2, '2025-10-26 01:30:00', 2)",
]


def test_two_instants_of_one_local_time_stay_two(bench: Workbench, mariadb: Place) -> None:
    mariadb.execute("CREATE TABLE stamp (id int PRIMARY KEY, ts timestamp NOT NULL, n int)")
    found = publish_each_way(bench, mariadb, "stamp", ROWS, ["id=1", "id=2"])
    for way, objects in found.items():
        assert objects["id=1"]["ts"] == ("1761438600",), way
        assert objects["id=2"]["ts"] == ("1761442200",), way
    assert_one_way(found)
    mariadb.execute("UPDATE stamp SET n = 3, ts = ts WHERE id = 1")
    bench.publish(job="fields.toml")
    assert b"ts" not in bench.lines("fields-out")[-1].partition(b"<modify ")[2].replace(b"</", b"")


def test_a_log_has_one_choice_for_both_hours(bench: Workbench) -> None:
    events = [
        event("idu=1", 3, "born", new="2025-10-26 02:30:00", event_time="2025-10-26 02:30:00"),
        event("idu=2", 3, "born", new="2025-03-30 02:30:00", event_time="2025-03-30 02:30:00"),
    ]
    bench.write("log.csv", log_file(events))
    bench.write(
        "job.toml",
        """
[[sources]]
snapshots = ["log.csv"]
time_zone = "Europe/Amsterdam"
[documents]
time_zone = "Europe/Amsterdam"
[tables.usr]
columns = { born = "timestamp" }
""",
    )
    bench.replay("log.csv", "-c", "job.toml")
    objects = bench.objects()
    assert objects["idu=1,table=usr"] == {"born": ("1761438600",)}
    assert objects["idu=2,table=usr"] == {"born": ("1743298200",)}

"""What a source has published is remembered longer than the runs that published it.

Runs are deleted by age.  An old export that turns up again, or a table that is compared again, must not
be published a second time.
"""

from __future__ import annotations

from publisher.ledger.job import Ledger
from publisher.ledger.read import read_runs
from tests.support.workbench import Workbench, event, log_file

JOB = """
[job]
name = "hr"
[[sources]]
name = "log"
snapshots = ["in"]
[dispatch]
path = "out"
[ledger]
retention_days = 0
"""
COMPARED = JOB.replace(
    'snapshots = ["in"]',
    'format = "triggerless"\nsnapshots = ["in"]\nkey = { usr = ["id"] }',
)


def runs(bench: Workbench) -> list[str]:
    """The runs whose rows are kept."""
    ledger = Ledger(bench.folder / ".xds-publisher" / "hr", "hr")
    return [run.place.name for run in read_runs(ledger)]


def test_an_old_export_is_known_again_by_its_content(bench: Workbench) -> None:
    bench.write("job.toml", JOB)
    old = log_file([event("idu=1", 3, "fname", new="a")])
    bench.write("in/1.csv", old)
    bench.publish()
    bench.write("in/2.csv", log_file([event("idu=2", 3, "fname", new="b")]))
    bench.publish()
    assert runs(bench) == ["hr-000002"]
    bench.write("in/again.csv", old)
    refused = bench.run("publish", "-c", "job.toml", codes=[1])
    assert "has the same content as" in refused.err
    (bench.folder / "in" / "again.csv").unlink()
    assert bench.publish(codes=[0])["documents"] == 0


def test_a_compared_table_keeps_its_last_state(bench: Workbench) -> None:
    bench.write("job.toml", COMPARED)
    for value in ("a", "b", "c"):
        bench.write("in/usr.csv", f"id,v\n1,{value}\n2,x\n")
        bench.publish()
    assert runs(bench) == ["hr-000003"]
    assert bench.publish(codes=[0])["documents"] == 0
    bench.write("in/usr.csv", "id,v\n1,c\n2,y\n")
    assert bench.publish(codes=[0])["operations"] == {"modify": 1}

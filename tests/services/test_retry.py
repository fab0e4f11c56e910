"""Failed rows of event logs in real databases go back to N."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.write_status import acknowledge
from publisher.cli.retry import retry
from publisher.dispatch.refusals import DispatchRecord, Refusal
from publisher.errors import UsageError
from publisher.ledger.job import Ledger
from tests.services.databases import Place
from tests.services.live_ledgers import plan_live_log, read_from
from tests.services.live_tables import make_tables

pytestmark = pytest.mark.usefixtures("reuse_connections")

JOB = """
[[sources]]
name = "hr"
table = "log"

[database]
url = "{url}"

[dispatch]
path = "out"
"""


def job(place: Place, base: Path) -> Path:
    """A job of which one run, without look-ups, was published and acknowledged."""
    make_tables(place)
    (base / "hr.toml").write_text(JOB.format(url=place.url))
    publish_run(place, base, 1)
    return base / "hr.toml"


def publish_run(place: Place, base: Path, number: int, *, lookups: bool = False) -> None:
    run = f"hr-{number:06d}"
    root = base / ".xds-publisher" / "hr" / run
    Ledger(root.parent, "hr").open_identity()
    run_files = plan_live_log(place, root, run=run, lookups=lookups)
    acknowledge(*run_files, 0, read_from(place.database().options), AcknowledgeOptions())


def run_retry(path: Path, *words: str) -> Result:
    return CliRunner().invoke(retry, ["-c", str(path), *words])


def new(place: Place) -> set[int]:
    return {int(i) for (i,) in place.query("SELECT record_id FROM log WHERE status = 'N'")}


def failed_ids(place: Place) -> set[int]:
    found = place.query("SELECT record_id FROM log WHERE status IN ('E', 'F')")
    return {int(i) for (i,) in found}


def test_all_failed_rows_go_back(place: Place, tmp_path: Path) -> None:
    path = job(place, tmp_path)
    before = failed_ids(place)
    assert {0, 3, 4, 5, 16, 17, 26} < before
    assert new(place) == set()
    done = run_retry(path)
    assert done.output == f"hr: rows of log reset to N: {len(before) + 1}\n"  # 16 is there twice
    assert (new(place), failed_ids(place)) == (before, set())


def test_by_reason_with_what_was_superseded_for_it(place: Place, tmp_path: Path) -> None:
    path = job(place, tmp_path)
    assert run_retry(path, "--reason", "no-database").exit_code == 0
    # 3 and 4 are superseded by 5, 6 is superseded by 7
    assert new(place) == {3, 4, 5, 6, 7, 25, 26}
    done = run_retry(path, "--reason", "value", "--reason", "record-id")
    assert "reset to N: 2\n" in done.output
    assert new(place) == {0, 3, 4, 5, 6, 7, 22, 25, 26}


def test_reason_that_nobody_has_is_said(place: Place, tmp_path: Path) -> None:
    done = run_retry(job(place, tmp_path), "--reason", "no-databse")
    assert "reset to N: 0\n" in done.output
    assert "no record failed for no-databse; known reasons:" in done.output
    assert "no-database, record-id" in done.output


def test_by_table_and_position(place: Place, tmp_path: Path) -> None:
    path = job(place, tmp_path)
    run_retry(path, "--table", "view_twice")
    assert new(place) == {26}
    run_retry(path, "--position", "18", "--position", "1", "--position", "4711")
    assert new(place) == {18, 26}  # 1 was published
    run_retry(path, "--table", "usr", "--position", "5", "--position", "26")
    assert new(place) == {5, 18, 26}


def test_last_run_decides_why_a_row_failed(place: Place, tmp_path: Path) -> None:
    path = job(place, tmp_path)
    run_retry(path, "--reason", "no-database")
    publish_run(place, tmp_path, 2, lookups=True)
    assert new(place) == set()
    assert 26 in failed_ids(place)  # for another reason now
    assert "reset to N: 0\n" in run_retry(path, "--reason", "no-database").output
    assert "reset to N: 1\n" in run_retry(path, "--reason", "several-values").output
    assert new(place) == {26}


def test_refused_documents_are_known_from_the_dispatch_record(place: Place, tmp_path: Path) -> None:
    path = job(place, tmp_path)
    run = Ledger(tmp_path / ".xds-publisher" / "hr", "hr").run("hr-000001")
    refused = [Refusal(n, 0, "hr", "1", "1", "too-large", "shorten it") for n in range(3)]
    DispatchRecord("hr-000001", "", "kafka://x", (), 1, 1, tuple(refused)).write(run, "kafka://x")
    place.execute("UPDATE log SET status = 'F' WHERE status = 'S' AND record_id <> 12")
    everything = failed_ids(place)
    run_retry(path, "--reason", "too-large")
    assert 0 < len(new(place)) < len(everything)


def test_rows_of_removed_runs_are_named_by_position(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    path = tmp_path / "hr.toml"
    path.write_text(JOB.format(url=place.url))
    place.execute("UPDATE log SET status = 'E' WHERE record_id IN (1, 2)")
    assert "known reasons: none" in run_retry(path, "--reason", "value").output
    assert "reset to N: 1\n" in run_retry(path, "--position", "2").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--position", "log.csv:3"], "write the record_id of a row"),
        (["--position", "idu=1"], "is not a position of an event log"),
        (
            ["--source", "crm"],
            "no source crm that is an event log in a database; known sources: hr",
        ),
    ],
)
def test_mistakes_are_said(words: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "hr.toml"
    path.write_text(JOB.format(url=f"sqlite:///{tmp_path}/none.db"))
    done = run_retry(path, *words)
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)

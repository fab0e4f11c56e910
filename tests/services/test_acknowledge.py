"""Status letters, reasons and statements in real databases."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import sqlalchemy as sa

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.status_letters import RefusedDocuments
from publisher.acknowledge.write_status import AcknowledgeReport, WritingHooks, acknowledge
from publisher.database import statuses
from publisher.errors import FatalError, UnreachableError
from publisher.formats.event_log.options import EventLogOptions
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.reports.explain import explain
from tests.services.databases import Place
from tests.services.live_ledgers import LANES, plan_live_log, read_from
from tests.services.live_tables import make_tables
from tests.support import whole_log as log

pytestmark = pytest.mark.usefixtures("reuse_connections")

SAME = {"published": "S", "ignored": "W", "rejected": "E", "superseded": "S"}
"""Letters by outcome: what supersedes is published in this log."""
GRAVEST = "ESW"
UNNAMED = {"15": "S", "16": "E"}
"""Two rows have each of these ids: published and double, published and rejected."""


def wanted_statuses(*, held: bool = False) -> list[tuple[int, str]]:
    """Record id and letter of each row of the log."""
    found = []
    for entry in log.LOG:
        outcome, _, reason = entry.with_database.partition(" ")
        letter = entry.row["status"] if reason == "status" else SAME[outcome]
        letter = UNNAMED.get(str(entry.row["record_id"]), letter)
        if held and entry.row["record_id"] == 42:
            letter = "N"
        found.append((int(str(entry.row["record_id"])), str(letter)))
    return sorted(found)


def statuses_of(place: Place) -> list[tuple]:
    return place.query("SELECT record_id, status FROM log ORDER BY 1, 2")


def acknowledge_run(
    place: Place,
    run: tuple[LedgerRun, Manifest],
    check_lease: Callable[[], None] = lambda: None,
    refused: RefusedDocuments | None = None,
    **options: object,
) -> AcknowledgeReport:
    return acknowledge(
        *run,
        0,
        read_from(place.database().options, str(run[1].sources[0].table)),
        AcknowledgeOptions(**options),  # type: ignore[arg-type]
        refused=refused,
        hooks=WritingHooks(check_lease),
    )


@pytest.fixture(params=["one-transaction", "small-transactions"])
def portions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "one-transaction":
        for name in ("ARRAYS", "LISTS", "UNINDEXED_ARRAYS", "UNINDEXED_LISTS"):
            monkeypatch.setattr(statuses, name, statuses.Sizes(rows=4, listed=1, series=2))


@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize("indexed", [True, False])
def test_every_row_gets_its_letter(place: Place, tmp_path: Path, indexed: bool) -> None:
    make_tables(place)
    if indexed:
        place.execute("CREATE INDEX by_id ON log (record_id)", "CREATE INDEX s ON log (status)")
    run = plan_live_log(place, tmp_path / "j")
    done = acknowledge_run(place, run)
    assert statuses_of(place) == wanted_statuses()
    letters = dict(wanted_statuses()) | {12: None}
    assert done.letters == {
        letter: sum(found == letter for found in letters.values()) for letter in "SWE"
    }
    assert sum(done.changed.values()) == len(log.LOG) - 1
    assert done.unnamed == 0
    assert acknowledge_run(place, run).changed == {}


def test_held_rows_stay_new(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    acknowledge_run(place, plan_live_log(place, tmp_path / "j", future_events=True))
    assert statuses_of(place) == wanted_statuses(held=True)


def test_rows_that_came_or_changed_meanwhile_are_left_alone(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    place.execute(
        "UPDATE log SET status = 'X' WHERE record_id = 1",
        "DELETE FROM log WHERE record_id = 2",
        # committed late: an id below the greatest, and one between two of the ledger
        "INSERT INTO log (record_id, table_key, status, event_type, table_name)"
        " VALUES (24, 'idu=1', 'N', 4, 'usr'), (30, 'idu=1', 'N', 4, 'usr')",
    )
    acknowledge_run(place, run)
    meanwhile = {1: "X", 24: "N", 30: "N"}
    expected = [pair for pair in wanted_statuses() if pair[0] not in (1, 2)]
    assert statuses_of(place) == sorted([*expected, *meanwhile.items()])


@pytest.mark.usefixtures("portions")
def test_rows_that_took_over_record_ids_are_left_alone(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    key, moment = "'idu=77'", "'2031-01-01 00:00:00'"
    place.execute(
        f"UPDATE log SET table_key = {key} WHERE record_id IN (3, 20)",
        f"UPDATE log SET event_time = {moment} WHERE record_id BETWEEN 5 AND 9",
        "UPDATE log SET table_key = NULL, event_time = NULL WHERE record_id = 27",
    )
    before = dict(statuses_of(place))
    done = acknowledge_run(place, run)
    touched = {3, 20, 5, 6, 7, 8, 9, 27} & set(before)
    after = dict(statuses_of(place))
    assert {number: after[number] for number in touched} == {n: before[n] for n in touched}
    assert {n: letter for n, letter in after.items() if n not in touched} == {
        n: letter for n, letter in wanted_statuses() if n not in touched
    }
    assert done.others == sum(before[number] == "N" for number in touched)
    assert acknowledge_run(place, run).changed == {}


def test_refused_documents_are_fatal(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    everything = {
        (lane, n): ("too-large", "shorten it") for lane in range(LANES) for n in range(len(log.LOG))
    }
    done = acknowledge_run(place, run, refused=everything, reason_table="reasons")
    # also record 16, of which the other row is rejected
    fatal = [
        (i, "F" if (letter == "S" and i != 12) or i == 16 else letter)
        for i, letter in wanted_statuses()
    ]
    assert statuses_of(place) == fatal
    assert "S" not in done.letters
    reasons = place.query("SELECT record_id, detail FROM reasons WHERE reason = 'too-large'")
    assert (5, "shorten it") in reasons
    assert (3, "superseded by record 5 (row-query-back): shorten it") in reasons


def test_processed_rows_are_deleted_where_asked(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    done = acknowledge_run(place, run, delete_processed_rows=True)
    assert statuses_of(place) == [
        (i, letter) for i, letter in wanted_statuses() if letter == "E" or i == 12
    ]
    assert set(done.changed) == {"D", "E"}
    assert acknowledge_run(place, run, delete_processed_rows=True).changed == {}


def test_table_is_left_alone_where_asked(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    before = statuses_of(place)
    done = acknowledge_run(place, plan_live_log(place, tmp_path / "j"), write_status=False)
    assert statuses_of(place) == before
    assert done.changed == {}
    assert done.letters["S"] > 10


def reasons_of(place: Place, table: str = "reasons") -> list[tuple]:
    return place.query(f"SELECT record_id, status, reason, run FROM {table} ORDER BY 1, 2, 3")


def test_reasons_are_written_once_for_a_run(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    done = acknowledge_run(place, run, reason_table="reasons")
    expected = []
    for entry in log.LOG:
        outcome, _, reason = entry.with_database.partition(" ")
        if outcome in ("ignored", "rejected") and reason != "status":
            expected.append((entry.row["record_id"], SAME[outcome], reason, "hr-000001"))
    assert reasons_of(place) == sorted(expected)
    assert done.reasons == len(expected)
    detail = "SELECT source, detail, time FROM reasons WHERE record_id = 20"
    ((source, text, moment),) = place.query(detail)
    assert source == "hr"
    assert '"=" is missing' in text
    assert str(moment).startswith("20")

    acknowledge_run(place, run, reason_table="reasons")
    assert len(reasons_of(place)) == len(expected)
    acknowledge_run(place, (run[0], replace(run[1], run="hr-000002")), reason_table="reasons")
    assert len(reasons_of(place)) == 2 * len(expected)


def test_reason_table_may_be_there_but_must_fit(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    with pytest.raises(FatalError, match=r"table usr .* has no column source, record_id, status"):
        acknowledge_run(place, run, reason_table="usr")
    assert ("S",) not in place.query("SELECT status FROM log WHERE record_id = 1")


def test_statements_are_run_after_something_was_published(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    place.execute("CREATE TABLE ran (what VARCHAR(40), status VARCHAR(1))")
    statements = (
        "INSERT INTO ran SELECT 'a % b %s :x', status FROM log WHERE record_id = 1",
        "INSERT INTO ran VALUES ('second', NULL)",
    )
    acknowledge_run(place, run, post_polling_statements=statements)
    assert place.query("SELECT * FROM ran") == [("a % b %s :x", "S"), ("second", None)]
    with pytest.raises(
        FatalError, match="post_polling_statements: statement 2 failed on"
    ) as caught:
        acknowledge_run(
            place, run, post_polling_statements=(*statements[:1], "CALL nobody('s3cret')")
        )
    assert "s3cret" not in str(caught.value)
    with pytest.raises(FatalError) as caught:
        acknowledge_run(place, run, post_polling_statements=("SELECT SELECT 's3cret'", "SELECT 1"))
    assert "s3cret" not in str(caught.value)
    assert "syntax" in str(caught.value)
    assert len(place.query("SELECT * FROM ran")) == 3

    place.execute("DELETE FROM log", "DELETE FROM ran")
    acknowledge_run(
        place, plan_live_log(place, tmp_path / "empty"), post_polling_statements=statements
    )
    assert place.query("SELECT * FROM ran") == []


class TakenOverError(Exception):
    """Another instance has taken over."""


@pytest.mark.usefixtures("portions")
def test_nothing_is_written_after_another_instance_took_over(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    options: dict = {"reason_table": "reasons", "post_polling_statements": ("DELETE FROM usr",)}
    before = (statuses_of(place), place.query("SELECT * FROM usr ORDER BY 1"))
    asked = 0

    def count() -> None:
        nonlocal asked
        asked += 1

    def taken_over() -> None:
        raise TakenOverError

    with pytest.raises(TakenOverError):
        acknowledge_run(place, run, taken_over, **options)
    assert before == (statuses_of(place), place.query("SELECT * FROM usr ORDER BY 1"))
    acknowledge_run(place, run, count, **options)
    assert asked >= 4  # making the table, old reasons, new ones, letters, statement
    assert statuses_of(place) == wanted_statuses()
    assert place.query("SELECT * FROM usr") == []


KILLED = """
import os, signal, sys
from pathlib import Path
from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.write_status import WritingHooks, acknowledge
from publisher.database import statuses
from publisher.database.options import DatabaseOptions
from publisher.ledger.runs import LedgerRun
from tests.services.live_ledgers import read_from

small = statuses.Sizes(rows=4, listed=1, series=2)
statuses.UNINDEXED_ARRAYS = statuses.UNINDEXED_LISTS = small

def check_lease():
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

for line in sys.stdin:
    left = int(line)
    child = os.fork()
    if not child:
        ledger = LedgerRun(Path(sys.argv[1]))
        acknowledge(
            ledger, ledger.manifest(), 0, read_from(DatabaseOptions(url=sys.argv[2])),
            AcknowledgeOptions(reason_table="reasons"), hooks=WritingHooks(check_lease),
        )
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Reads numbers of transactions; after so many a child of it is killed."""


def test_killed_in_the_middle_and_done_again(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    seen = []
    command = [sys.executable, "-c", KILLED, str(run[0].root), place.url]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for transactions in (1, 3, 5, 8):
            process.stdin.write(f"{transactions}\n")
            process.stdin.flush()
            assert int(process.stdout.readline()) == -signal.SIGKILL
            seen.append(sum(status == "N" for _, status in statuses_of(place)))
    assert seen == sorted(seen, reverse=True)
    assert 0 < seen[-1] < seen[0]
    acknowledge_run(place, run, reason_table="reasons")
    assert statuses_of(place) == wanted_statuses()
    once = reasons_of(place)
    place.execute("DELETE FROM reasons")
    acknowledge_run(place, run, reason_table="reasons")
    assert reasons_of(place) == once


def test_columns_have_names_of_their_own(place: Place, tmp_path: Path) -> None:
    mark = "`" if place.kind == "mariadb" else '"'

    def quote(name: str) -> str:
        return mark + name.replace(mark, mark * 2) + mark

    odd = "lo%g \"n`a'me; :x %(k0)s {} ?"
    names = {"record_id": f"{odd}1", "status": "Status", "event_type": "type"}
    columns = [
        f"{quote(names['record_id'])} BIGINT PRIMARY KEY, table_key VARCHAR(80)",
        f"{quote('Status')} VARCHAR(3), {quote('type')} SMALLINT, event_time VARCHAR(40)",
        "perpetrator VARCHAR(40), table_name VARCHAR(40), column_name VARCHAR(40)",
        "old_value VARCHAR(40), new_value VARCHAR(40)",
    ]
    place.execute(
        f"CREATE TABLE {quote(odd)} ({', '.join(columns)})",
        f"INSERT INTO {quote(odd)} VALUES"
        " (1, 'idu=1', 'N', 4, '2024-05-06 07:08:09', NULL, 'usr', NULL, NULL, NULL),"
        " (2, 'idu=1', 'N', 9, '2024-05-06 07:08:09', NULL, 'usr', NULL, NULL, NULL),"
        " (9000000000000000000, 'idu=2', 'N', 4, '2024-05-06 07:08:09', NULL, 'usr', NULL, NULL, NULL)",
    )
    options = EventLogOptions(columns={theirs: ours for ours, theirs in names.items()})
    run = plan_live_log(place, tmp_path / "j", table=odd, options=options, lookups=False)
    reasons = f"{odd} too"
    acknowledge_run(place, run, reason_table=reasons)
    acknowledge_run(place, run, reason_table=reasons)
    asked = f"SELECT {quote(names['record_id'])}, {quote('Status')} FROM {quote(odd)} ORDER BY 1"
    found = place.query(asked.replace("%", "%%") if place.kind != "sqlite" else asked)
    assert found == [(1, "S"), (2, "E"), (9000000000000000000, "S")]
    asked = f"SELECT record_id, reason FROM {quote(reasons)}"
    found = place.query(asked.replace("%", "%%") if place.kind != "sqlite" else asked)
    assert found == [(2, "event-type")]


@pytest.mark.parametrize(
    ("place", "type_"),
    [
        *product(["sqlite", "postgresql", "mariadb"], ["VARCHAR(20)", "NUMERIC(20)"]),
        ("sqlite", ""),  # the others have no columns without a type
    ],
    indirect=["place"],
)
def test_record_ids_may_be_of_other_types(place: Place, tmp_path: Path, type_: str) -> None:
    make_tables(place)
    place.execute(
        "ALTER TABLE log RENAME TO other",
        f"CREATE TABLE log (record_id {type_}, table_key VARCHAR(80), status VARCHAR(1),"
        " event_type INTEGER, event_time VARCHAR(40), perpetrator VARCHAR(40),"
        " table_name VARCHAR(40), column_name VARCHAR(40), old_value TEXT, new_value TEXT)",
        "INSERT INTO log SELECT * FROM other WHERE record_id > 0",
    )
    acknowledge_run(place, plan_live_log(place, tmp_path / "j"))
    found = sorted(
        (int(i), letter) for i, letter in place.query("SELECT record_id, status FROM log")
    )
    assert found == [pair for pair in wanted_statuses() if pair[0]]


def test_row_without_a_record_id_stays_and_is_counted(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    place.execute("INSERT INTO log (record_id, status, event_type) VALUES (NULL, 'N', 4)")
    done = acknowledge_run(place, plan_live_log(place, tmp_path / "j"), reason_table="reasons")
    assert done.unnamed == 1
    assert place.query("SELECT status FROM log WHERE record_id IS NULL") == [("N",)]
    assert place.query("SELECT reason FROM reasons WHERE record_id IS NULL") == [("record-id",)]


def test_database_that_refuses_is_said(postgres: Place, tmp_path: Path) -> None:
    make_tables(postgres)
    run = plan_live_log(postgres, tmp_path / "j")
    postgres.execute("ALTER TABLE log ADD CONSTRAINT never CHECK (status IN ('N', 'X')) NOT VALID")
    with pytest.raises(FatalError, match="Writing the status into table log failed on postgresql"):
        acknowledge_run(postgres, run)
    gone = replace(postgres.database().options, url="postgresql://tester@127.0.0.1:1/none")
    with pytest.raises(UnreachableError):
        acknowledge(*run, 0, read_from(gone), AcknowledgeOptions())


def test_lost_connection_is_made_again(postgres: Place, tmp_path: Path) -> None:
    make_tables(postgres)
    run = plan_live_log(postgres, tmp_path / "j")
    cut = iter([True])

    def cut_once() -> None:
        if next(cut, False):
            postgres.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'xds-publisher'"
            )

    acknowledge_run(postgres, run, cut_once)
    assert statuses_of(postgres) == wanted_statuses()


def test_row_that_somebody_holds_is_waited_for_and_then_said(
    postgres: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tables(postgres)
    run = plan_live_log(postgres, tmp_path / "j")
    monkeypatch.setattr(statuses, "LOCK_TIMEOUT", "100ms")
    engine = sa.create_engine(postgres.url, poolclass=sa.NullPool)
    with engine.begin() as holding:
        holding.exec_driver_sql("SELECT * FROM log WHERE record_id = 27 FOR UPDATE")
        with pytest.raises(UnreachableError, match="lock timeout"):
            acknowledge_run(postgres, run)
    acknowledge_run(postgres, run)
    assert statuses_of(postgres) == wanted_statuses()


def test_letters_are_those_that_explain_tells(place: Place, tmp_path: Path) -> None:
    make_tables(place)
    run = plan_live_log(place, tmp_path / "j")
    acknowledge_run(place, run)
    for record_id, letter in statuses_of(place):
        if record_id and record_id not in (12, 15, 16):  # not read; there twice
            (story,) = explain(run[0].root, str(record_id))
            assert (record_id, story.status) == (record_id, letter)

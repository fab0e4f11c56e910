"""An event id names one document for ever: two jobs, logs that are made again, replays, lost ledger."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from publisher.cli.main import cli
from publisher.consumer import (
    Add,
    Delivery,
    EventIdError,
    Inbox,
    parse_document,
    part_files,
    read_files,
)
from publisher.consumer.topics import TopicReader
from tests.services.databases import Place, sqlite_place
from tests.services.topics import Topics

pytestmark = pytest.mark.usefixtures("local_engine")

LOG = """CREATE TABLE event_log (record_id INTEGER PRIMARY KEY, table_key VARCHAR(99),
    status CHAR(1), event_type INTEGER, event_time TIMESTAMP NULL, perpetrator VARCHAR(99),
    table_name VARCHAR(99), column_name VARCHAR(99), old_value VARCHAR(99), new_value VARCHAR(99))"""
HEADER = (
    "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,"
    "old_value,new_value"
)
EVENT_ID = re.compile(r"(\w+)@([0-9a-f]{16})\.(\d+):(.+)")


@dataclass(frozen=True)
class Event:
    """A row of an event log: the insert of a name."""

    id: int
    key: int
    name: str = "Ann"
    second: int = 0

    @property
    def fields(self) -> list[object]:
        time = f"2026-01-01 00:00:{self.second:02d}"
        return [self.id, f"idu={self.key}", "N", 1, time, "", "usr", "fname", "", self.name]


def add_rows(place: Place, events: Sequence[Event]) -> None:
    for event in events:
        values = ", ".join(f"'{value}'" for value in event.fields)
        place.execute(f"INSERT INTO event_log VALUES ({values})")


def write_csv(path: Path, events: Sequence[Event]) -> Path:
    lines = [HEADER, *(",".join(map(str, event.fields)) for event in events)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*words: object) -> tuple[int, str, str]:
    """The exit code and the output of a command."""
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@dataclass(frozen=True)
class Job:
    """A job in a folder of its own."""

    folder: Path
    name: str = "hr"

    def write(self, source: str, dispatch: str, rest: str = "") -> Job:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(
            f'[job]\nname = "{self.name}"\n[[sources]]\nname = "{self.name}"\n{source}\n'
            f"[documents]\nevent_id = true\n{rest}\n[dispatch]\n{dispatch}\n[run]\nlanes = 3\n"
        )
        return self

    def to_files(self, source: str, rest: str = "") -> Job:
        return self.write(source, 'path = "out"', rest)

    def to_topic(self, source: str, kafka: Topics, topic: str, rest: str = "") -> Job:
        to = f'to = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{topic}"'
        return self.write(source, to, rest)

    @property
    def file(self) -> Path:
        return self.folder / f"{self.name}.toml"

    def run(self, command: str, *more: object, code: int = 0) -> str:
        """The output of a command of the job, which must end with this code."""
        ended, out, err = run(command, *more, "-c", self.file)
        assert ended == code, (ended, out, err)
        return out + err

    def lose_ledger(self) -> None:
        shutil.rmtree(self.folder / ".xds-publisher")

    def names(self) -> dict[str, str]:
        """The names in the documents in files, by event id; no id may name two."""
        return names_in(self.folder / "out")


def names_in(directory: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for delivery in read_files(part_files(directory)):
        for operation in delivery.operations:
            assert isinstance(operation, Add)
            assert operation.event_id is not None
            text = f"{operation.association.partition(',')[0]} {operation.changes[0].value.text}"
            assert found.setdefault(operation.event_id, text) == text
    return found


def table(place: Place) -> str:
    return f'table = "event_log"\nurl = "{place.url}"'


def consume(kafka: Topics, *topics: str) -> list[Delivery]:
    with TopicReader({"bootstrap.servers": kafka.bootstrap}, *topics) as reader:
        return [*Inbox().in_order(reader.deliveries(follow=False))]


def parts_of(event_id: str | None) -> tuple[str, str, int, str]:
    """Source, identity, epoch and position."""
    match = EVENT_ID.fullmatch(event_id or "")
    assert match, event_id
    return match[1], match[2], int(match[3]), match[4]


def positions(ids: Sequence[str]) -> list[tuple[int, str]]:
    return sorted((parts_of(id_)[2], parts_of(id_)[3]) for id_ in ids)


# two jobs


def test_two_new_jobs_in_one_topic_lose_nothing(
    postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    """F01: both start with record 1; before, half of the documents never reached a consumer."""
    topic = kafka.make(partitions=2)
    other = sqlite_place(tmp_path / "crm.db")
    events = [Event(n, n) for n in range(1, 5)]
    for place in (postgres, other):
        place.execute(LOG, "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(99))")
        add_rows(place, events)
    target = f"kafka://{kafka.bootstrap}/{topic}"
    url = {"hr": postgres.url, "crm": other.url}
    for name in ("hr", "crm"):
        folder = tmp_path / name
        folder.mkdir()
        job = folder / f"{name}.toml"
        words = ("--database", url[name], "--table", "event_log", "--to", target, "-o", job)
        code, out, err = run("init", *words)
        assert code == 0, (out, err)
        assert job.read_text().count(f'\nname = "{name}"\n') == 2
        code, out, err = run("publish", "-c", job)
        assert code == 0, (out, err)
    found = consume(kafka, topic)
    assert len(found) == 8
    assert {parts_of(each.event_id)[0] for each in found} == {"hr", "crm"}
    assert len({parts_of(each.event_id)[1] for each in found}) == 2
    assert positions([str(each.event_id) for each in found]) == sorted(
        [(1, str(n)) for n in range(1, 5)] * 2
    )


def test_two_jobs_with_one_name_have_other_ids(tmp_path: Path) -> None:
    ids: set[str] = set()
    for folder in ("a", "b"):
        place = sqlite_place(tmp_path / f"{folder}.db")
        place.execute(LOG)
        add_rows(place, [Event(1, 1)])
        job = Job(tmp_path / folder).to_files(table(place))
        job.run("publish")
        ids |= job.names().keys()
    assert len(ids) == 2


# a log that begins again


@pytest.mark.parametrize(
    "how", ["drop", "empty", "restore"], ids=["made again", "emptied", "restored"]
)
def test_a_log_that_begins_again_gets_the_next_epoch(
    place: Place, tmp_path: Path, how: str
) -> None:
    place.execute(LOG)
    job = Job(tmp_path / "job").to_files(table(place))
    add_rows(place, [Event(1, 1), Event(2, 2)])
    if how == "restore":
        place.execute("CREATE TABLE backup AS SELECT * FROM event_log")
        add_rows(place, [Event(3, 3), Event(4, 4)])
    job.run("publish")
    if how == "drop":
        place.execute("DROP TABLE event_log", LOG)
    elif how == "empty" and place.kind == "postgresql":
        place.execute("TRUNCATE event_log RESTART IDENTITY")
    elif how == "empty":
        place.execute("DELETE FROM event_log")
    else:
        place.execute(
            "DELETE FROM event_log",
            "UPDATE backup SET status = 'S'",
            "INSERT INTO event_log SELECT * FROM backup",
        )
    first = 3 if how == "restore" else 1
    add_rows(place, [Event(first, 7, "Bob", 5), Event(first + 1, 8, "Cid", 6)])
    assert "epoch 2" in job.run("publish")
    assert (2, str(first)) in positions([*job.names()])
    assert len(job.names()) == (6 if how == "restore" else 4)
    add_rows(place, [Event(first + 2, 9)])
    assert "epoch" not in job.run("publish")
    assert positions([*job.names()])[-1] == (2, str(first + 2))


def test_a_new_key_at_a_published_position_is_another_document(tmp_path: Path) -> None:
    """The time may be equal; so may the key, where only the time differs."""
    place = sqlite_place(tmp_path / "hr.db")
    place.execute(LOG)
    job = Job(tmp_path / "job").to_files(table(place))
    for number, event in enumerate([Event(1, 1), Event(1, 2), Event(1, 2, second=9)], 1):
        place.execute("DELETE FROM event_log")
        add_rows(place, [event])
        job.run("publish")
        assert positions([*job.names()])[-1] == (number, "1")


def test_a_row_that_is_published_again_keeps_its_id(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "hr.db")
    place.execute(LOG)
    add_rows(place, [Event(1, 1), Event(2, 2)])
    job = Job(tmp_path / "job").to_files(table(place))
    job.run("publish")
    before = job.names()
    place.execute("UPDATE event_log SET status = 'N' WHERE record_id = 1")
    assert "epoch" not in job.run("publish")
    assert job.names() == before
    assert len([*read_files(part_files(job.folder / "out"))]) == 3


def test_a_row_that_is_published_again_with_other_content_gets_another_id(tmp_path: Path) -> None:
    """A query-back reads the present row: one id would name two documents."""
    place = sqlite_place(tmp_path / "hr.db")
    place.execute(
        LOG,
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)",
        "INSERT INTO usr VALUES (1, 'Ann')",
    )
    row = "1, 'idu=1', 'N', 6, '2026-01-01', '', 'usr', NULL, NULL, NULL"
    place.execute(f"INSERT INTO event_log VALUES ({row})")
    job = Job(tmp_path / "job").to_files(table(place), f'[database]\nurl = "{place.url}"')
    job.run("publish")
    place.execute("UPDATE event_log SET status = 'N'", "UPDATE usr SET fname = 'Bob'")
    assert "other content" in job.run("publish")
    ids = [
        operation.event_id
        for delivery in read_files(part_files(job.folder / "out"))
        for operation in delivery.operations
    ]
    assert len(ids) == len(set(ids)) == 2


def test_rows_that_come_late_stay_in_the_epoch(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "hr.db")
    place.execute(LOG)
    job = Job(tmp_path / "job").to_files(table(place))
    for number in (5, 3, 9, 4):
        add_rows(place, [Event(number, number)])
        assert "epoch" not in job.run("publish")
    assert {parts_of(id_)[2] for id_ in job.names()} == {1}


def test_files_with_the_same_ids_on_two_days_get_two_epochs(tmp_path: Path) -> None:
    job = Job(tmp_path / "job").to_files('snapshots = ["in"]')
    for day, name in enumerate(["Ann", "Bob"], 1):
        events = [Event(n, n, name, day) for n in range(1, 4)]
        write_csv(job.folder / "in" / f"day{day}.csv", events)
        out = job.run("publish")
        assert ("epoch 2" in out) == (day == 2)
    assert positions([*job.names()]) == [(e, str(n)) for e in (1, 2) for n in (1, 2, 3)]


def test_files_with_the_same_ids_in_one_run_name_the_objects(tmp_path: Path) -> None:
    job = Job(tmp_path / "job").to_files('snapshots = ["in"]')
    for day in (1, 2):
        write_csv(job.folder / "in" / f"day{day}.csv", [Event(n, 10 * day + n) for n in (1, 2)])
    job.run("publish")
    assert len(job.names()) == 4
    (directory,) = [tmp_path / "replayed"]
    code, _, err = run("replay", job.folder / "in", "--to", directory, "-c", job.file)
    assert code == 0, err
    assert len(names_in(directory)) == 4


def test_a_position_that_a_deleted_ledger_may_have_published_is_new(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "hr.db")
    place.execute(LOG)
    rest = "[ledger]\nretention_days = 0.0000001"
    job = Job(tmp_path / "job").to_files(table(place), rest)
    for number in (1, 2, 3):
        add_rows(place, [Event(number, number)])
        job.run("publish")
    place.execute("DELETE FROM event_log")
    add_rows(place, [Event(1, 1)])
    assert "deleted" in job.run("publish")
    assert (2, "1") in positions([*job.names()])


# replays


def test_a_replay_repeats_its_ids_whatever_else_changes(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv", [Event(n, n) for n in range(1, 6)])
    found = []
    for number, lanes in enumerate((1, 4)):
        job = Job(tmp_path / f"job{number}").to_files('snapshots = ["none"]')
        job.file.write_text(job.file.read_text().replace("lanes = 3", f"lanes = {lanes}"))
        code, out, err = run("replay", log, "--to", job.folder / "out", "-c", job.file)
        assert code == 0, (out, err)
        found.append(job.names())
    assert found[0] == found[1]
    assert len(found[0]) == 5
    write_csv(log, [Event(n, n, "Bob") for n in range(1, 6)])
    code, out, err = run("replay", log, "--to", tmp_path / "other", "-c", job.file)
    assert code == 0, (out, err)
    assert not names_in(tmp_path / "other").keys() & found[0].keys()


def test_a_part_of_the_jobs_files_is_replayed_with_the_jobs_ids(
    kafka: Topics, tmp_path: Path
) -> None:
    topic = kafka.make(partitions=1)
    job = Job(tmp_path / "job").to_topic('snapshots = ["in"]', kafka, topic)
    log = write_csv(job.folder / "in" / "log.csv", [Event(n, n) for n in range(1, 6)])
    job.run("publish")
    target = f"kafka://{kafka.bootstrap}/{topic}"
    job.run("replay", log, "--to", target, "--from", 2, "--until", 4)
    assert len(kafka.read(topic)) == 8
    assert len(consume(kafka, topic)) == 5
    other = write_csv(tmp_path / "other.csv", [Event(n, n, "Bob") for n in range(1, 6)])
    job.run("replay", other, "--to", target, "--from", 2, "--until", 4)
    assert len(consume(kafka, topic)) == 8


# lost ledger


def test_a_recovery_repeats_the_ids_of_the_lost_ledger(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(partitions=1)
    place = sqlite_place(tmp_path / "hr.db")
    place.execute(LOG)
    add_rows(place, [Event(1, 1), Event(2, 2)])
    job = Job(tmp_path / "job").to_topic(table(place), kafka, topic)
    job.run("publish")
    place.execute("DELETE FROM event_log")
    add_rows(place, [Event(1, 5, second=1), Event(2, 6, second=2)])
    job.run("publish")
    place.execute("UPDATE event_log SET status = 'N'")
    job.lose_ledger()
    job.run("publish", code=1)
    add_rows(place, [Event(3, 7)])
    job.run("recover")
    records = kafka.read(topic)
    assert len(records) == 7
    found = consume(kafka, topic)
    assert positions([str(each.event_id) for each in found]) == [
        *((1, "1"), (1, "2"), (2, "1"), (2, "2"), (2, "3"))
    ]
    assert len({parts_of(each.event_id)[1] for each in found}) == 1
    place.execute("DELETE FROM event_log")
    add_rows(place, [Event(1, 8)])
    job.run("publish")
    assert (3, "1") in positions([str(each.event_id) for each in consume(kafka, topic)])


def test_a_recovery_of_files_repeats_the_ids_of_the_lost_ledger(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "hr.db")
    place.execute(LOG)
    add_rows(place, [Event(1, 1), Event(2, 2)])
    job = Job(tmp_path / "job").to_files(table(place))
    job.run("publish")
    before = job.names()
    report = json.loads((job.folder / "out" / "runs" / "hr-000001" / "run.json").read_text())
    assert report["epochs"] == {"hr": 1}
    place.execute("UPDATE event_log SET status = 'N' WHERE record_id = 2")
    job.lose_ledger()
    add_rows(place, [Event(3, 3)])
    job.run("publish", code=1)
    job.run("recover")
    assert len([*read_files(part_files(job.folder / "out"))]) == 4
    assert positions([*job.names()]) == [(1, "1"), (1, "2"), (1, "3")]
    assert before.items() <= job.names().items()
    add_rows(place, [Event(4, 4)])
    job.run("publish")
    assert positions([*job.names()])[-1] == (2, "4")
    job.run("recover", code=2)


# readers


def test_a_diff_pairs_operations_of_two_jobs_by_position(tmp_path: Path) -> None:
    jobs = []
    for folder in ("a", "b"):
        place = sqlite_place(tmp_path / f"{folder}.db")
        place.execute(LOG)
        add_rows(place, [Event(1, 1), Event(2, 2, "Bob" if folder == "a" else "Cid")])
        jobs.append(Job(tmp_path / folder).to_files(table(place)))
        jobs[-1].run("publish")
    ledger = [job.folder / ".xds-publisher" / "hr" for job in jobs]
    code, out, _ = run("diff", *ledger, "--json")
    assert code in (0, 3)
    assert "@" not in out
    assert "hr:2" in out
    assert "hr:1" not in out


def test_explain_takes_short_and_full_event_ids(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "hr.db")
    place.execute(LOG)
    job = Job(tmp_path / "job").to_files(table(place))
    for key in (1, 2):
        place.execute("DELETE FROM event_log")
        add_rows(place, [Event(1, key)])
        job.run("publish")
    assert job.run("explain", "hr:1").count("object ") == 2
    assert job.run("explain", "1").count("object ") == 2
    first, second = sorted(job.names(), key=lambda id_: parts_of(id_)[2])
    assert "idu=1 " in job.run("explain", first)
    assert "idu=2 " not in job.run("explain", first)
    assert "idu=2 " in job.run("explain", second)


def test_a_forged_id_is_an_error_and_a_finding(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(partitions=1)
    place = sqlite_place(tmp_path / "hr.db")
    place.execute(
        LOG,
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)",
        "INSERT INTO usr VALUES (1, 'Ann')",
    )
    add_rows(place, [Event(1, 1)])
    rest = f'[database]\nurl = "{place.url}"'
    job = Job(tmp_path / "job").to_topic(table(place), kafka, topic, rest)
    job.run("publish")
    job.run("verify")
    (record,) = kafka.read(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, record.value, record.key, headers=[*record.headers])
    producer.flush(30)
    assert "repeated   1 documents" in job.run("verify")
    assert len(consume(kafka, topic)) == 1
    assert record.value is not None
    assert record.key is not None
    other = record.value.replace(b"idu=1", b"idu=7")
    key = record.key.replace(b"idu=1", b"idu=7")
    producer.produce(topic, other, key, headers=[*record.headers])
    producer.flush(30)
    place.execute("INSERT INTO usr VALUES (7, 'Ann')")
    out = job.run("verify", code=3)
    assert "repeated   1 documents" in out
    assert "conflicting 1 documents" in out
    assert f"{topic}/0:" in out
    with pytest.raises(EventIdError, match=r"another key than at .*verify"):
        consume(kafka, topic)
    assert parse_document(other)

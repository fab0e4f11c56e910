"""Recovery of a job whose ledger was lost: nothing is lost, what may be doubled says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from publisher.config.job_file import load
from publisher.dispatch.kafka import recovery
from publisher.dispatch.kafka.client import KafkaClients
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.progress_tokens import TokenPlace
from publisher.dispatch.kafka.run_sender import RunSender
from publisher.errors import FatalError, UsageError
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.ledger.storage import transaction
from publisher.runs import recover
from tests.chaos.known_log import KnownLog
from tests.services.databases import Place
from tests.services.logged_job import RECOVERED, LoggedJob, judge
from tests.services.topics import Record, Topics

pytestmark = pytest.mark.usefixtures("local_engine")


class Lost:
    """A job that has published a part of its log and lost its ledger."""

    def __init__(self, place: Place, kafka: Topics, folder: Path):
        self.kafka = kafka
        self.topic = kafka.make(partitions=3)
        self.job = LoggedJob(KnownLog(place.url, "known_log"), folder / "a", kafka, self.topic)
        self.job.log_rows(300)
        self.job.publish()
        self.before = len(self.records())

    def lose(self) -> None:
        shutil.rmtree(self.job.ledger)

    def records(self) -> list[Record]:
        return self.kafka.read(self.topic)

    def unacknowledge(self, condition: str) -> None:
        self.job.log.execute(f"UPDATE known_log SET status = 'N' WHERE {condition}")

    def state(self) -> list[object]:
        """Ends of the topics, statuses and files."""
        tokens = load(self.job.path).kafka.tokens_of("people")
        files = {path: path.stat().st_mtime_ns for path in sorted(self.job.path.parent.rglob("*"))}
        ends = [self.kafka.ends(topic) for topic in (self.topic, tokens)]
        return [ends, self.job.log.statuses(), files]

    def marked(self) -> set[bytes | None]:
        return {record.key for record in self.records() if RECOVERED in record.headers}

    def assert_right(self) -> None:
        found = judge(self.records(), self.job.log.counts)
        assert found.is_right, found
        assert set(self.job.log.statuses()) == {"S"}

    def keys(self, condition: str) -> set[bytes]:
        rows = self.job.log.ask(f"SELECT DISTINCT table_key FROM known_log WHERE {condition}")
        return {f"{key},table=usr,schema=indirect".encode() for (key,) in rows}


@pytest.fixture
def lost(postgres: Place, kafka: Topics, tmp_path: Path) -> Lost:
    return Lost(postgres, kafka, tmp_path)


def rehearse_unchanged(lost: Lost) -> RunReport:
    """Rehearses the recovery, which writes nothing, and does not fence a producer of the job."""
    settings = load(lost.job.path)
    options, other = settings.kafka, lost.kafka.make()
    place = TokenPlace(options.tokens_of(settings.name), settings.name, options.topic)
    producer = KafkaClients(options).producer({"transactional.id": place.transactional_id(0)})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(other, b"x")
    producer.flush(30)
    before = lost.state()
    report = recover.recover(settings, dry_run=True)
    assert lost.state() == before
    producer.commit_transaction(30)
    return report


class CutError(BaseException):
    """The program ends here."""


def cut_recovery(lost: Lost, monkeypatch: pytest.MonkeyPatch, owner: object, function: str) -> None:
    """Starts a recovery that ends where it would call a function."""

    def cut(*_: object, **__: object) -> None:
        raise CutError

    with monkeypatch.context() as patch:
        patch.setattr(owner, function, cut)
        with pytest.raises(CutError):
            lost.job.recover()


def test_what_the_topic_does_not_have_is_sent_once(
    postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    lost = Lost(postgres, kafka, tmp_path)
    lost.lose()
    lost.job.log_rows(200)
    lost.job.refused("came from another ledger")
    report = lost.job.recover()
    assert report.statuses == {"S": 200}
    assert lost.marked() == set()
    assert len(lost.records()) == lost.before + report.documents
    lost.assert_right()
    lost.job.log_rows(50)
    assert lost.job.publish().run == "people-000003"  # numbers of the lost ledger stay taken
    lost.assert_right()


def test_objects_with_a_waiting_record_in_the_topic_are_sent_again_and_marked(lost: Lost) -> None:
    lost.unacknowledge("record_id % 100 = 0")
    lost.lose()
    lost.job.log_rows(200)
    wanted = lost.keys("status = 'N' AND record_id % 100 = 0 AND record_id <= 300")
    assert len(wanted) == 3
    rehearsed = rehearse_unchanged(lost)
    report = lost.job.recover()
    assert (rehearsed.read, rehearsed.documents) == (report.read, report.documents)
    assert report.notes[-1].replace(" were sent ", " would be sent ") in rehearsed.notes
    assert lost.marked() == wanted
    again = [record for record in lost.records() if RECOVERED in record.headers]
    assert f"recovered: {len(again)} document(s)" in report.notes[-1]
    assert {record.key for record in again} == wanted
    lost.assert_right()


def test_an_older_copy_goes_on_after_a_recovery(lost: Lost, tmp_path: Path) -> None:
    """Its last run was planned and not sent when it was copied."""
    shutil.copytree(lost.job.ledger, tmp_path / "copy")
    lost.job.log_rows(100)
    lost.job.publish()
    lost.job.log_rows(100)
    lost.job.publish()
    lost.lose()
    shutil.copytree(tmp_path / "copy", lost.job.ledger)
    with transaction(lost.job.ledger / "people") as ledger:
        ledger.execute("UPDATE run SET ended = NULL, outcome = NULL WHERE number = 1")
    lost.unacknowledge("record_id BETWEEN 390 AND 400")
    lost.job.log_rows(100)
    lost.job.refused("newer than the last run")
    wanted = lost.keys("status = 'N' AND record_id <= 400")
    lost.job.recover()
    assert lost.marked() == wanted
    lost.assert_right()
    lost.job.log_rows(100)
    assert lost.job.publish().run == "people-000005"
    lost.assert_right()


@pytest.mark.parametrize(
    ("owner", "function"),
    [
        (Ledger, "finish"),
        (KafkaDispatcher, "_send"),
        (KafkaDispatcher, "claim_tokens"),
        (RunSender, "_record"),
        (recovery, "find_records"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)).rpartition(".")[2],
)
def test_an_interrupted_recovery_goes_on(
    lost: Lost, monkeypatch: pytest.MonkeyPatch, owner: object, function: str
) -> None:
    lost.unacknowledge("record_id % 100 = 0")
    lost.lose()
    lost.job.log_rows(200)
    wanted = lost.keys("status = 'N' AND record_id % 100 = 0 AND record_id <= 300")

    cut_recovery(lost, monkeypatch, owner, function)
    with pytest.raises(FatalError, match=r"interrupted: run `xds-publisher recover"):
        lost.job.publish()
    lost.job.recover()
    assert lost.marked() == wanted
    lost.assert_right()
    with pytest.raises(UsageError, match="nothing to recover"):
        lost.job.recover()
    lost.job.log_rows(10)
    assert lost.job.publish().statuses == {"S": 10}


def test_a_ledger_may_be_lost_in_a_recovery(lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    lost.unacknowledge("record_id % 100 = 0")
    lost.lose()
    lost.job.log_rows(200)
    wanted = lost.keys("status = 'N' AND record_id % 100 = 0 AND record_id <= 300")

    cut_recovery(lost, monkeypatch, KafkaDispatcher, "_send")
    lost.lose()
    lost.job.refused("came from another ledger")
    lost.job.recover()
    assert lost.marked() == wanted
    lost.assert_right()


def test_without_anything_that_waits_the_job_goes_on(lost: Lost) -> None:
    lost.lose()
    lost.job.recover()
    assert len(lost.records()) == lost.before
    lost.lose()  # once more
    lost.job.refused("came from another ledger")
    lost.job.recover()
    lost.job.log_rows(10)
    lost.job.publish()
    lost.assert_right()


def test_a_topic_with_expired_records_is_refused(lost: Lost) -> None:
    lost.lose()
    lost.job.log_rows(10)
    place = TopicPartition(lost.topic, 1, 1)
    admin = AdminClient({"bootstrap.servers": lost.kafka.bootstrap})
    for answer in admin.delete_records([place]).values():
        answer.result(30)
    message = lost.job.refused("has lost its records below offset 1", lost.job.recover)
    assert "partition 1" in message
    assert "set another name in [job]" in message
    lost.job.path.write_text(lost.job.path.read_text() + '\n[job]\nname = "others"\n')
    assert lost.job.publish().statuses == {"S": 10}


def test_a_compacted_topic_is_refused(postgres: Place, kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make()
    log = KnownLog(postgres.url, "known_log")
    job = LoggedJob(log, tmp_path / "a", kafka, topic)
    job.log_rows(5)
    job.publish()
    kafka.alter(topic, cleanup_policy="compact")
    shutil.rmtree(job.ledger)
    job.log_rows(5)
    job.refused("is compacted", job.recover)


def test_a_job_whose_progress_fits_has_nothing_to_recover(lost: Lost) -> None:
    with pytest.raises(UsageError, match="nothing to recover; run `xds-publisher publish`"):
        lost.job.recover()
    lost.job.log_rows(10)
    lost.job.publish()
    lost.assert_right()


def test_a_directory_of_the_same_ledger_has_nothing_to_recover(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    (tmp_path / "in").mkdir()
    job.write_text('[[sources]]\nsnapshots = ["in"]\n[dispatch]\npath = "out"\n')
    with pytest.raises(UsageError, match="there is nothing to recover"):
        recover.recover(load(job))

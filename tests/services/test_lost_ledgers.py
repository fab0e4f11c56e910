"""A job whose ledger does not fit its sink is refused before anything is sent: nothing is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.dispatch.kafka.client import KafkaClients, KafkaMessage
from tests.chaos.known_log import KnownLog
from tests.services.databases import Place
from tests.services.logged_job import LoggedJob
from tests.services.topics import Topics

pytestmark = pytest.mark.usefixtures("local_engine")


def test_a_lost_ledger_directory_is_refused(postgres: Place, kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.make(partitions=2)
    job = LoggedJob(KnownLog(postgres.url, "known_log"), tmp_path / "a", kafka, topic)
    job.log_rows(5)
    job.publish()
    before = kafka.read(topic)
    shutil.rmtree(job.ledger)
    job.log_rows(7)
    message = job.refused("came from another ledger")
    assert "xds-publisher recover" in message
    job.refused("came from another ledger")  # the new directory is there now
    job.refused("came from another ledger", job.follow)
    assert kafka.read(topic) == before


def test_a_second_job_of_the_same_name_is_refused(
    postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    topic = kafka.make(partitions=2)
    first, second = (
        LoggedJob(KnownLog(postgres.url, f"{name}_log"), tmp_path / name, kafka, topic)
        for name in ("first", "second")
    )
    first.log_rows(5)
    before = first.publish().documents
    second.log_rows(6)
    assert "set another name in [job]" in second.refused("another job has the same name")
    assert len(kafka.read(topic)) == before
    second.write('\n[job]\nname = "others"\n')
    assert second.publish().statuses == {"S": 6}
    assert second.log.statuses() == {"S": 6}


def test_an_older_copy_of_the_ledger_directory_is_refused(
    postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    topic = kafka.make(partitions=2)
    job = LoggedJob(KnownLog(postgres.url, "known_log"), tmp_path / "a", kafka, topic)
    job.log_rows(5)
    job.publish()
    shutil.copytree(job.ledger, tmp_path / "copy")
    job.log_rows(5)
    job.publish()
    shutil.rmtree(job.ledger)
    shutil.copytree(tmp_path / "copy", job.ledger)
    job.log_rows(5)
    before = kafka.read(topic)
    job.refused("newer than the last run")
    assert kafka.read(topic) == before


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"run":"people-000001","plan":"0123456789abcdef","sent":3}', "tokens have format 1"),
        (b'{"format":99,"sent":"3"}', "tokens have format 99, this program reads format 3"),
        (b"?", "not a token of this program"),
    ],
)
def test_tokens_of_another_version_are_refused(
    postgres: Place, kafka: Topics, tmp_path: Path, value: bytes, why: str
) -> None:
    topic = kafka.make()
    log = KnownLog(postgres.url, "known_log")
    job = LoggedJob(log, tmp_path / "a", kafka, topic)
    job.log_rows(5)
    job.publish()
    options = load(job.path).kafka
    tokens = options.tokens_of("people")
    key = f'["people", "{topic}", 2]'.encode()
    KafkaClients(options).deliver("writing", tokens, [KafkaMessage(value, key, 2)])
    job.log_rows(5)
    before = kafka.read(topic)
    assert "xds-publisher recover" in job.refused(why)
    assert kafka.read(topic) == before
    assert job.recover().statuses == {"S": 5}
    job.log_rows(5)
    assert job.publish().statuses == {"S": 5}

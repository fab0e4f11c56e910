"""Targets, topics and settings of the Kafka sink, as far as no broker is asked."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.dispatch.kafka.client import KafkaClients
from publisher.dispatch.kafka.options import KafkaOptions, conflicts
from publisher.dispatch.kafka.topic_template import KafkaTarget, TopicTemplate
from publisher.errors import FatalError, SettingsError, UsageError

SECRET = "h0rse-battery"


@pytest.mark.parametrize(
    ("text", "brokers", "topic"),
    [
        ("kafka://localhost:9092/xds", "localhost:9092", "xds"),
        ("kafka://a:1,b.example:2/x.{schema}.{table}", "a:1,b.example:2", "x.{schema}.{table}"),
        ("kafka://[::1]:9092/xds", "[::1]:9092", "xds"),
    ],
)
def test_a_target_names_brokers_and_topic(text: str, brokers: str, topic: str) -> None:
    assert KafkaTarget.parse(text) == KafkaTarget(brokers, topic)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kafka://localhost:9092", "HOST:PORT"),
        ("kafka:///xds", "not a broker"),
        ("kafka://localhost/xds", "HOST:PORT"),
        ("kafka://localhost:0/xds", "HOST:PORT"),
        ("kafka://localhost:99999/xds", "HOST:PORT"),
        ("kafka://a:1,,b:2/xds", "HOST:PORT"),
        ("kafka://localhost:9092/x/y", "cannot be in the name"),
        ("kafka://localhost:9092/..", "cannot be the name"),
        ("kafka://localhost:9092/{lane}", "not a placeholder"),
    ],
)
def test_what_is_no_target_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        KafkaTarget.parse(text)


def test_a_password_in_a_target_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError, match=r"\[dispatch\.kafka\]") as error:
        KafkaTarget.parse(f"kafka://me:{SECRET}@localhost:9092/xds")
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("template", "schema", "table", "topic"),
    [
        ("xds", "indirect", "usr", "xds"),
        ("xds.{schema}.{table}", "indirect", "usr", "xds.indirect.usr"),
        ("xds.{schema}.{table}", None, "usr", "xds.usr"),
        ("{schema}", "ä b", "usr", "__b"),
        ("{table}-{schema}", None, "usr", "usr"),
        ("{source}.{table}", None, r"a\1{table}", "log.a_1_table_"),
    ],
)
def test_a_template_gives_a_name_that_kafka_takes(
    template: str, schema: str | None, table: str, topic: str
) -> None:
    assert TopicTemplate(template).topic("log", schema, table) == topic


@pytest.mark.parametrize("table", ["..", "x" * 250, "__consumer_offsets"])
def test_a_table_without_a_topic_of_its_own_has_a_problem(table: str) -> None:
    assert TopicTemplate("{table}").problem("log", None, table) is not None
    assert TopicTemplate("xds.{source}").problem("log", None, table) is None


@pytest.mark.parametrize("table", ["..", "x" * 250])
def test_a_table_that_gives_no_name_is_refused(table: str) -> None:
    with pytest.raises(FatalError, match="change topic"):
        TopicTemplate("{table}").topic("log", None, table)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.idempotence", "false"),
        ("acks", "1"),
        ("request.required.acks", "0"),
        ("transactional.id", "mine"),
        ("partitioner", "random"),
        ("isolation.level", "read_uncommitted"),
        ("queuing.strategy", "lifo"),
    ],
)
def test_what_would_break_the_promise_is_refused(name: str, value: str) -> None:
    ((found, reason),) = conflicts({name: value, "linger.ms": "5"})
    assert found == name
    assert len(reason) > 20


def test_what_says_the_same_is_taken() -> None:
    assert not list(conflicts({"acks": "-1", "enable.idempotence": "true"}))


def test_librdkafka_judges_its_settings_and_all_problems_come_at_once() -> None:
    settings = {
        "lingr.ms": "5",
        "linger.ms": "5",
        "compresion": "zstd",
        "acks": "1",
        "sasl.password": SECRET,
    }
    with pytest.raises(SettingsError) as error:
        KafkaClients(KafkaOptions(bootstrap="localhost:1", kafka=settings)).check_settings()
    names = [problem.partition(":")[0] for problem in error.value.lines]
    assert sorted(names) == [f"[dispatch.kafka] {n}" for n in ("acks", "compresion", "lingr.ms")]


def test_what_does_not_go_with_transactions_is_refused() -> None:
    kafka = {"message.timeout.ms": "90000", "transaction.timeout.ms": "60000"}
    with pytest.raises(SettingsError, match=r"message\.timeout\.ms"):
        KafkaClients(KafkaOptions(bootstrap="localhost:1", kafka=kafka)).check_settings()


def test_a_value_that_librdkafka_refuses_is_said_without_secrets() -> None:
    settings = {"security.protocol": "ssl", "ssl.key.pem": SECRET}
    options = KafkaOptions(bootstrap="localhost:1", kafka=settings)
    with pytest.raises(SettingsError) as error:
        KafkaClients(options).check_settings()
    assert SECRET not in str(error.value)
    assert SECRET not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_message_of_librdkafka_shows_no_secret() -> None:
    options = KafkaOptions(
        bootstrap="b:1",
        kafka={
            "sasl.password": SECRET,
            "ssl.key.pem": "-----BEGIN-----\nline of a key\n",
            "sasl.oauthbearer.client.secret": "abc",
            "client.id": "shown",
        },
    )
    text = options.without_secrets(
        f'wrong "{SECRET}", sasl.oauthbearer.client.secret=abc, line of a key, shown; the fabcric'
    )
    assert text == 'wrong "***", sasl.oauthbearer.client.secret=***, ***, shown; the fabcric'


def job(tmp_path: Path, dispatch: str) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(f'[source]\nsnapshots = ["log.csv"]\n[dispatch]\nto = "kafka"\n{dispatch}')
    return path


def test_values_come_from_the_environment_and_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PASSWORD", SECRET)
    (tmp_path / "ca.pem").write_text("line\nline\n")
    path = job(
        tmp_path,
        'bootstrap = "b:1"\n[dispatch.kafka]\nsasl.password = { env = "SOME_PASSWORD" }\n'
        '"ssl.ca.pem" = { file = "ca.pem" }\n"linger.ms" = 7\n"enable.idempotence" = true\n',
    )
    settings = load(path).for_publish()
    assert settings.kafka.kafka == {
        "sasl.password": SECRET,
        "ssl.ca.pem": "line\nline",
        "linger.ms": "7",
        "enable.idempotence": "true",
    }
    assert SECRET not in repr(settings)
    assert SECRET not in settings.meaning()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('"sasl.password" = { env = "NOT_SET_ANYWHERE" }', "NOT_SET_ANYWHERE is not set"),
        ('"sasl.password" = { file = "nowhere" }', "nowhere: No such file"),
        ('"sasl.password" = { env = "A", file = "b" }', "one of the two"),
        (f'"sasl.password" = ["{SECRET}"]', "write it as text"),
        ("acks = 1", "[dispatch.kafka] acks: must be"),
        ('"bootstrap.servers" = "c:2"', "keep one of the two"),
    ],
)
def test_wrong_values_are_said_with_their_line_and_never_shown(
    tmp_path: Path, line: str, says: str
) -> None:
    path = job(tmp_path, f'bootstrap = "b:1"\n[dispatch.kafka]\n{line}\n')
    with pytest.raises(SettingsError) as error:
        load(path)
    (problem,) = error.value.lines
    assert says in problem
    assert problem.endswith("(line 7)")
    assert SECRET not in problem


def test_brokers_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="bootstrap: is required"):
        load(job(tmp_path, "")).for_publish()
    path = job(tmp_path, '[dispatch.kafka]\n"bootstrap.servers" = "b:1"\n')
    assert load(path).for_publish().kafka.brokers == "b:1"


def test_a_template_is_judged_with_the_job_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\[dispatch\] topic: \{lane\} is not a placeholder"):
        load(job(tmp_path, 'bootstrap = "b:1"\ntopic = "x.{lane}"\n'))

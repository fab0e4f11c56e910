"""The program's errors for those of librdkafka; its own clients, no broker."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from publisher.dispatch.kafka.client import KafkaClients
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.errors import FatalError, PublisherError, UnreachableError


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address of this machine at which nobody answers."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def error_of(clients: KafkaClients, code: int) -> PublisherError:
    with pytest.raises(PublisherError) as raised, clients.errors("sending"):
        raise KafkaException(KafkaError(code))
    return raised.value


def test_the_error_says_what_the_client_has_heard_beside_it(nobody: str) -> None:
    clients = KafkaClients(KafkaOptions(bootstrap=nobody))
    producer = clients.producer({})
    assert "Connect to" not in str(error_of(clients, KafkaError._TIMED_OUT))
    deadline = time.monotonic() + 20
    while "Connect to" not in str(error_of(clients, KafkaError._TIMED_OUT)):
        assert time.monotonic() < deadline
        producer.poll(0.1)
    timed_out = error_of(clients, KafkaError._TIMED_OUT)
    assert isinstance(timed_out, UnreachableError)
    assert timed_out.message.startswith(f"Kafka at {nobody}: sending: Local: Timed out (")
    advice = "check the address and security.protocol in [dispatch.kafka] (now plaintext)"
    assert timed_out.message.endswith(f"): try again later; if this lasts, {advice}")
    vague = error_of(clients, KafkaError._TRANSPORT)
    assert "transport failure (" in vague.message
    assert vague.message.count("Connection refused") == 1
    assert isinstance(error_of(clients, KafkaError.INVALID_TXN_STATE), FatalError)
    producer.purge()


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
    ],
)
def test_an_answer_of_a_moment_is_tried_again(nobody: str, code: int) -> None:
    clients = KafkaClients(KafkaOptions(bootstrap=nobody))
    assert isinstance(error_of(clients, code), UnreachableError)


def test_a_server_that_answers_nothing_is_not_waited_for_to_the_end() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(5)
        bootstrap = f"127.0.0.1:{server.getsockname()[1]}"
        settings = {"api.version.request.timeout.ms": "2000"}
        clients = KafkaClients(KafkaOptions(bootstrap=bootstrap, timeout=60, kafka=settings))
        began = time.monotonic()
        with (
            pytest.raises(UnreachableError, match=r"does not answer.*security\.protocol"),
            clients.errors("asking"),
        ):
            clients.cluster(clients.admin())
        assert time.monotonic() - began < 30


def test_why_a_connection_failed_is_reported() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))  # nobody listens
        bootstrap = f"127.0.0.1:{server.getsockname()[1]}"
        clients = KafkaClients(KafkaOptions(bootstrap=bootstrap, timeout=1))
        with pytest.raises(UnreachableError, match="Connection refused"), clients.errors("asking"):
            clients.cluster(clients.admin())

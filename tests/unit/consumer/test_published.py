"""Event logs are published to files and consumed: the objects are those of a model of the tables."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from publisher.consumer import Add, Inbox, Objects, Value, parse_document, part_files, read_files
from publisher.model.catalogue import ColumnKind
from publisher.xds.document import Envelope, EnvelopeOptions, operation
from publisher.xds.operations import add_attr
from publisher.xds.references import ReferenceTarget, reference_converter
from publisher.xds.values import ValueOptions, Values, text_of
from tests.golden.test_classes import replay_events
from tests.support.user_logs import ALPHABET, RENAMING, UserLog, shown_objects


@pytest.mark.usefixtures("local_engine")
@settings(
    max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    rng=st.integers(0, 2**32).map(random.Random),
    lanes=st.sampled_from([1, 4]),
    poll_size=st.sampled_from([1, 5, 10_000]),
    value_format=st.sampled_from(["xml", "json"]),
)
def test_the_objects_are_those_of_the_tables(
    rng: random.Random, lanes: int, poll_size: int, value_format: str
) -> None:
    log = UserLog(rng)
    for _ in range(80):
        log.step()
    objects = Objects()
    polls = f"[source]\npoll_size = {poll_size}\npoll_slack = 0"
    with TemporaryDirectory() as name:
        job = RENAMING.replace("[source]", polls)
        job += f'[documents]\nvalue_format = "{value_format}"\n'
        documents = replay_events(Path(name), log.events, lanes=lanes, job=job)
        objects.apply_all(Inbox().in_order(read_files(part_files(documents))))
    assert shown_objects(objects) == log.objects()


NATIVE = st.one_of(
    st.tuples(st.just(ColumnKind.INT), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(ColumnKind.STATE), st.booleans()),
    st.tuples(st.just(ColumnKind.OCTET), st.binary()),
    st.tuples(
        st.just(ColumnKind.TIMESTAMP),
        st.datetimes(datetime(1902, 1, 1), datetime(2037, 1, 1)).map(  # noqa: DTZ001 -- in UTC below
            lambda time: time.replace(microsecond=0, tzinfo=UTC)
        ),
    ),
)


def read_value(element: str) -> Value:
    text = operation("add", "usr", "idu=1", [add_attr("a", None, element)])
    (parsed,) = parse_document(Envelope(EnvelopeOptions()).document([text]))
    assert isinstance(parsed, Add)
    return parsed.changes[0].value


@given(NATIVE)
def test_values_of_databases_come_back_as_they_were(column: tuple[ColumnKind, object]) -> None:
    kind, native = column
    text = text_of(native)
    assert text is not None
    assert read_value(Values(ValueOptions()).converter(kind)(text)).native == native


@given(st.text(ALPHABET, min_size=1))
def test_references_come_back_as_they_were(key: str) -> None:
    target = ReferenceTarget("indirect", "usr", "idu", None)
    for options in (ValueOptions(), ValueOptions(reference_text="empty")):
        value = read_value(reference_converter(target, options)(key))
        quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
        assert value.association_ref in (
            f"idu={key},table=usr,schema=indirect",
            f"idu={quoted},table=usr,schema=indirect",
        )
        assert value.text in (value.association_ref, "")

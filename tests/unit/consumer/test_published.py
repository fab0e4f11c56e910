"""Event logs are published to files and consumed: the objects are those of a model of the tables."""

from __future__ import annotations

import random
from collections import defaultdict
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
from tests.golden.test_classes import JOB, replay_events

RENAMING = JOB.replace("[source]", '[source]\nkey_change = "modify-association"')
SETTINGS = '[classes]\nchild_after_delete = "publish"\n'
"""A deleted user's key may be given to another user, whose children are not those of the deleted one."""
ALPHABET = "aé\"',\\<&;=+ "


class Model:
    """Users with names, managers, phones and groups, and the event log of their changes, keys included."""

    def __init__(self, rng: random.Random) -> None:
        self.users: dict[int, dict[str, list[str]]] = {}
        self.events: list[str] = []
        self._rng = rng

    def step(self) -> None:
        number = self._rng.randrange(6)
        if number not in self.users:
            self.users[number] = defaultdict(list)
            self._log(1, "usr", number, "fname", "", self._set(number, "fname"))
        elif self._rng.random() < 0.15:
            del self.users[number]
            self.events.append(f"4|usr|idu={number}")
        elif self._rng.random() < 0.15 and (free := [n for n in range(6) if n not in self.users]):
            new = self._rng.choice(free)
            self.users[new] = self.users.pop(number)
            self._log(2, "usr", number, "idu", str(number), str(new))
        elif self._rng.random() < 0.4:
            column = self._rng.choice(["fname", "manager"])
            kind = self._rng.choice([2, 3])
            old = "".join(self.users[number][column])
            self._log(kind, "usr", number, column, old, self._set(number, column))
        else:
            self._change_child(number)

    def _change_child(self, number: int) -> None:
        table, column = self._rng.choice([("usr_phone", "phoneno"), ("usr_mbr_of", "idg")])
        values = self.users[number][f"{table}.{column}"]
        old = self._rng.choice(values) if values and self._rng.random() < 0.6 else ""
        if old:
            values.remove(old)
        new = str(len(self.events)) if not old or self._rng.random() < 0.5 else ""
        if new:
            values.append(new)
        kind = 2 if old or self._rng.random() < 0.5 else 1
        self._log(kind, table, number, column, old, new)

    def _set(self, number: int, column: str) -> str:
        text = str(self._rng.randrange(4))
        if column == "fname":
            text = "x" + "".join(self._rng.choices(ALPHABET, k=3))
        self.users[number][column] = [text]
        return text

    def _log(self, kind: int, table: str, number: int, column: str, old: str, new: str) -> None:
        self.events.append(f"{kind}|{table}|idu={number}|{column}|{old}|{new}")


def shown(values: tuple[Value, ...]) -> list[str]:
    """Returns the keys of references and the texts of other values."""
    return [
        value.text
        if value.association_ref is None
        else value.association_ref.partition(",")[0].partition("=")[2]
        for value in values
    ]


@pytest.mark.usefixtures("local_engine")
@settings(
    max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(rng=st.integers(0, 2**32).map(random.Random), lanes=st.sampled_from([1, 4]))
def test_the_objects_are_those_of_the_tables(rng: random.Random, lanes: int) -> None:
    model = Model(rng)
    for _ in range(80):
        model.step()
    objects = Objects()
    with TemporaryDirectory() as name:
        documents = replay_events(Path(name), model.events, SETTINGS, lanes, RENAMING)
        objects.apply_all(Inbox().in_order(read_files(part_files(documents))))
    assert {
        association: {name: shown(values) for name, values in known.attributes.items()}
        for association, known in objects.items()
    } == {
        f"idu={number},table=usr,schema=indirect": {
            name: values for name, values in user.items() if values
        }
        for number, user in model.users.items()
    }


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

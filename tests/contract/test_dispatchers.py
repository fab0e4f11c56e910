"""The promises of every dispatcher; each dispatcher is a line in ``SINKS``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from publisher.dispatch.contract import Dispatcher
from publisher.dispatch.files import FileDispatcher
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.errors import FatalError, UsageError
from publisher.ledger import runs
from publisher.ledger.conservation import report_of
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import DOCUMENT_STAGING, LedgerRun
from tests.services.topics import Topics
from tests.support.planned_ledgers import LANES, RUN, plan_small_log


@dataclass(frozen=True)
class Sink:
    """A sink under test: how to make its dispatcher, and how to read what it holds."""

    dispatcher: Callable[[Path], Dispatcher]
    lines: Callable[[Path], list[str]]
    rejected: Callable[[Path, LedgerRun], int]
    untouched: Callable[[Path], bool]
    """Whether the place is as if nobody had ever sent there."""
    one_run: bool
    """Whether a place takes one run only."""
    copies: bool
    """True if documents that are sent once more appear twice."""


def _lines_of_files(folder: Path) -> list[str]:
    parts = sorted(folder.glob("part-*.xds"))
    return [line for part in parts for line in part.read_bytes().decode().split("\n") if line]


def _files(_: pytest.FixtureRequest) -> Sink:
    return Sink(
        dispatcher=FileDispatcher,
        lines=_lines_of_files,
        rejected=lambda folder, _: len((folder / "rejects.jsonl").read_text().splitlines()),
        untouched=lambda folder: not folder.exists(),
        one_run=True,
        copies=False,
    )


def _kafka(request: pytest.FixtureRequest) -> Sink:
    topics: Topics = request.getfixturevalue("kafka")

    def topic(place: Path) -> str:
        """A place of a test is a topic of its own."""
        return f"contract-{hashlib.sha256(str(place).encode()).hexdigest()[:16]}"

    def dispatcher(place: Path) -> KafkaDispatcher:
        options = KafkaOptions(bootstrap=topics.bootstrap, topic=topic(place), create_topics=True)
        return KafkaDispatcher(options, job=topic(place), owner=topic(place), lanes=LANES)

    def values(place: Path) -> list[str]:
        try:
            return [(record.value or b"").decode() for record in topics.read(topic(place))]
        except KafkaException:  # there is no such topic
            return []

    return Sink(
        dispatcher=dispatcher,
        lines=values,
        rejected=lambda _, ledger_run: len(
            (ledger_run.root / "rejects.jsonl").read_text().splitlines()
        ),
        untouched=lambda place: not values(place),
        one_run=False,
        copies=True,
    )


SINKS: dict[str, Callable[[pytest.FixtureRequest], Sink]] = {"files": _files, "kafka": _kafka}


@pytest.fixture(params=list(SINKS))
def sink(request: pytest.FixtureRequest) -> Sink:
    return SINKS[request.param](request)


class TestDispatchers:
    """The contract."""

    def sent(self, sink: Sink, tmp_path: Path) -> tuple[Path, Dispatcher, LedgerRun, Manifest]:
        planned, manifest = plan_small_log(tmp_path / "planned")
        ledger_run = planned.commit(manifest)
        place = tmp_path / "sink"
        dispatcher = sink.dispatcher(place)
        dispatcher.prepare(RUN)
        self.send(dispatcher, ledger_run, manifest)
        return place, dispatcher, ledger_run, manifest

    @staticmethod
    def send(dispatcher: Dispatcher, ledger_run: LedgerRun, manifest: Manifest) -> None:
        report = report_of(
            manifest, state="published", ledger=str(ledger_run.root), target="", seconds={}
        )
        dispatcher.dispatch(ledger_run, manifest, report)

    def test_the_sink_gets_every_document_in_the_order_of_its_lane(
        self, sink: Sink, tmp_path: Path
    ) -> None:
        place, _, ledger_run, manifest = self.sent(sink, tmp_path)
        in_ledger = [text for lane in ledger_run.lanes(manifest) for text in lane.texts()]
        assert len(in_ledger) == sum(result.documents for result in manifest.results) == 7
        assert sink.lines(place) == in_ledger

    def test_rejects_reach_the_operator(self, sink: Sink, tmp_path: Path) -> None:
        place, _, ledger_run, _ = self.sent(sink, tmp_path)
        assert sink.rejected(place, ledger_run) == 2

    def test_a_run_is_dispatched_only_when_the_sink_has_it_wholly(
        self, sink: Sink, tmp_path: Path
    ) -> None:
        _, dispatcher, _, manifest = self.sent(sink, tmp_path)
        assert dispatcher.has_run(manifest)
        dispatcher = sink.dispatcher(tmp_path / "new")
        assert not dispatcher.has_run(manifest)
        dispatcher.prepare(RUN)
        assert not dispatcher.has_run(manifest)

    def test_another_run_identity_or_plan_is_not_dispatched(
        self, sink: Sink, tmp_path: Path
    ) -> None:
        _, dispatcher, _, manifest = self.sent(sink, tmp_path)
        first, *rest = manifest.results
        other_bytes = (replace(first, digest="0" * 64), *rest)
        assert not dispatcher.has_run(replace(manifest, run="job-000002"))
        assert not dispatcher.has_run(replace(manifest, job_identity="another"))
        assert not dispatcher.has_run(replace(manifest, results=other_bytes))

    def test_a_new_start_knows_what_is_sent(self, sink: Sink, tmp_path: Path) -> None:
        place, _, _, manifest = self.sent(sink, tmp_path)
        before = sink.lines(place)
        dispatcher = sink.dispatcher(place)
        dispatcher.prepare(RUN)
        assert sink.lines(place) == before
        assert dispatcher.has_run(manifest)

    def test_what_is_forgotten_is_sent_wholly(self, sink: Sink, tmp_path: Path) -> None:
        place, dispatcher, ledger_run, manifest = self.sent(sink, tmp_path)
        before = sink.lines(place)
        dispatcher.forget()
        assert not dispatcher.has_run(manifest)
        dispatcher.prepare(RUN)
        self.send(dispatcher, ledger_run, manifest)
        assert sorted(sink.lines(place)) == sorted(before * 2 if sink.copies else before)
        assert dispatcher.has_run(manifest)

    def test_a_sink_for_one_run_refuses_another(self, sink: Sink, tmp_path: Path) -> None:
        _, dispatcher, _, manifest = self.sent(sink, tmp_path)
        if not sink.one_run:
            dispatcher.check("job-000002")
            dispatcher.prepare("job-000002")
            assert dispatcher.has_run(manifest)
            return
        with pytest.raises(UsageError, match="run"):
            dispatcher.check("job-000002")
        with pytest.raises(UsageError, match="run"):
            dispatcher.prepare("job-000002")

    def test_check_writes_nothing_and_discard_leaves_nothing(
        self, sink: Sink, tmp_path: Path
    ) -> None:
        dispatcher = sink.dispatcher(tmp_path / "new")
        dispatcher.check(RUN)
        assert sink.untouched(tmp_path / "new")
        dispatcher.prepare(RUN)
        dispatcher.discard()
        assert sink.untouched(tmp_path / "new")

    def test_a_ledger_with_a_missing_part_is_refused(
        self, sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runs, "RECORDS_OF_SMALL_RUN", 3)
        planned, manifest = plan_small_log(tmp_path / "planned", rows=3)
        ledger_run = planned.commit(manifest)
        ledger_run.lanes(manifest)[1].part.unlink()
        dispatcher = sink.dispatcher(tmp_path / "sink")
        dispatcher.prepare(RUN)
        with pytest.raises(FatalError, match=r"part-00001\.xds"):
            self.send(dispatcher, ledger_run, manifest)
        assert not dispatcher.has_run(manifest)


def test_files_tell_the_run_in_numbers(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    place, *_ = TestDispatchers().sent(_files(request), tmp_path)
    run = json.loads((place / "run.json").read_text())
    assert run["run"] == RUN
    assert run["read"] == 52 == sum(run["outcomes"].values())
    assert [part["documents"] for part in run["parts"]] == [
        len((place / part["file"]).read_text().splitlines()) for part in run["parts"]
    ]
    assert not (place / DOCUMENT_STAGING).exists()
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}

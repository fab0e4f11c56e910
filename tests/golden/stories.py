"""Stories: files typed by hand, and the documents that they give."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lxml import etree

from publisher.database.options import DatabaseOptions
from publisher.database.resources import Rules
from publisher.formats.contract import Source
from publisher.formats.work import SourceWork, Work
from publisher.ledger.lane_result import LaneResult
from publisher.model.catalogue import JobCatalogue
from publisher.model.change import Outcome
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import FilterOptions
from publisher.xds.document import DocumentOptions, EnvelopeOptions
from publisher.xds.values import ValueOptions
from tests.support.event_ids import ORIGIN
from tests.support.prepare import prepare_here
from tests.support.task_runs import plan_all, read_all


def typed_lines(path: Path) -> list[str]:
    """The lines of a typed file without its comments."""
    return [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]


def typed_bytes(path: Path) -> bytes:
    """The bytes that a ``.hex`` file spells."""
    return bytes.fromhex("".join(typed_lines(path)))


def work_of(source: Source, path: Path, splits: int, database: str | None = None) -> Work:
    """The work of a run in one lane over one file, with default settings."""
    with prepare_here(source, [path], splits, JobCatalogue(())) as prepared:
        pass
    read = SourceWork(
        name=source.format,
        source=prepared.source,
        splits=prepared.splits,
        filters=FilterOptions(),
        polls=None,
        identifier_case=IdentifierCase.AS_WRITTEN,
        origin=ORIGIN,
    )
    options = DatabaseOptions(url=database) if database is not None else None
    rules = Rules(DocumentOptions(), EnvelopeOptions(), ValueOptions(), (), options)
    return Work(sources=(read,), rules=rules, lanes=1, clock=0, shared=path.parent / ".ids")


def plan_story(work: Work, folder: Path) -> tuple[LaneResult, list[bytes]]:
    """Plans a story in one lane; returns its report and its operations."""
    (lane,) = plan_all(work, read_all(work), folder)
    return lane.result, operations(lane.rows.texts())


def count_outcomes(result: LaneResult) -> dict[tuple[Outcome, str | None], int]:
    """Records by what became of them, and why."""
    return {(count.outcome, count.reason): count.records for count in result.counts}


def operations_in(path: Path) -> list[bytes]:
    """The operations of a file of documents, one a line."""
    return operations(path.read_text("utf-8").splitlines())


def operations(documents: Iterable[str]) -> list[bytes]:
    """Operations as canonical XML, of whole documents or typed by themselves."""
    elements = [etree.fromstring(document) for document in documents]
    return [
        etree.tostring(operation, method="c14n")
        for element in elements
        for operation in element.findall("input/*") or [element]
    ]

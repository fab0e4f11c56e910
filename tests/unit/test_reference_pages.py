"""The reference pages agree with the code: generated pages are up to date, written ones are complete."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pytest

from docs.generate import DOCS, PAGES
from publisher.dispatch.kafka import dead_letters
from publisher.dispatch.kafka.records import HEADERS, RECOVERED
from publisher.dispatch.refusals import RefusalReason
from publisher.errors import PublisherError
from publisher.formats.contract import Source
from publisher.formats.format import Format
from publisher.ledger.tables import TABLES
from publisher.model.change import Outcome, Reason
from publisher.observing.metrics import Metrics
from publisher.observing.options import MetricsOptions
from publisher.xds.validate import text_line, validate_files


def page(name: str) -> str:
    return (DOCS / "reference" / name).read_text("utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PAGES[name](), f"{name} is stale; run ./run docs"


@pytest.mark.parametrize("name", PAGES)
def test_every_setting_and_option_has_a_description(name: str) -> None:
    undescribed = re.findall(r"^(.+)\n:\s*$", PAGES[name](), re.MULTILINE)
    assert not undescribed


def test_every_reason_is_explained_once() -> None:
    explained = re.findall(r"^`([\w-]+)`\{ #([\w-]+) \}\n:   \S", page("rejects.md"), re.MULTILINE)
    assert all(name == anchor for name, anchor in explained)
    assert sorted(name for name, _ in explained) == sorted([*Reason, *RefusalReason])


def test_every_outcome_is_explained() -> None:
    for outcome in Outcome:
        assert f"\n| {outcome.label} | " in page("rejects.md")


@pytest.mark.parametrize("schema", [table.schema for table in TABLES])
def test_every_column_of_the_ledger_is_named(schema: pa.Schema) -> None:
    named = re.findall(r"\w+", " ".join(re.findall("`([^`]*)`", page("ledger.md"))))
    assert set(schema.names) <= set(named)


def test_every_metric_is_named() -> None:
    table = page("metrics.md").partition("| metric `xds_publisher_…` |")[2].partition("\n\n")[0]
    named = {
        name
        for line in table.splitlines()[2:]
        for name in re.findall(r"`(\w+)`", line.split(" | ")[0])
    }
    families = Metrics(MetricsOptions(), "people").series.registry.collect()
    suffixes = {"counter": "_total", "info": "_info"}
    assert named == {
        family.name.removeprefix("xds_publisher_") + suffixes.get(family.type, "")
        for family in families
    }


def test_every_header_is_named() -> None:
    headers = {*HEADERS, RECOVERED[0], *dead_letters.HEADERS, "raw-bytes"}
    assert headers <= set(re.findall("`([^`\n]+)`", page("topics.md")))


def test_every_exit_code_is_explained() -> None:
    explained = re.findall(r"^\| (\d) \| \S", page("exit-codes.md"), re.MULTILINE)
    assert {int(code) for code in explained} == {0, *exit_codes(PublisherError)}


def exit_codes(kind: type[PublisherError]) -> set[int]:
    return {kind.exit_code}.union(*map(exit_codes, kind.__subclasses__()))


def test_every_package_is_described() -> None:
    text = (DOCS / "explanation" / "architecture.md").read_text("utf-8")
    table = text.partition("| package of `publisher` |")[2].partition("\n\n")[0]
    named = {
        name
        for line in table.splitlines()
        for name in re.findall(r"`(\w+)`", line[: line.find(" | ")])
    }
    package = DOCS.parent / "publisher"
    modules = {path.stem for path in package.iterdir() if (path / "__init__.py").exists()}
    assert modules <= named


def test_the_document_that_is_shown_is_valid(tmp_path: Path) -> None:
    shown = page("documents.md").partition("```xml\n")[2].partition("```")[0]
    document = "".join(line.strip() for line in shown.splitlines())
    wrong = re.sub("<add .*</add>", '<modify clas-name="usr"/>', document)
    path = tmp_path / "mistake.xds"
    path.write_text(f"{document}\n{document}\n{wrong}\n", "utf-8")
    findings = [text_line(finding) for finding in validate_files([path], "strict")]
    assert findings
    assert all(":3: " in finding for finding in findings)
    assert any(finding.removeprefix(f"{tmp_path}/") in page("documents.md") for finding in findings)


def test_descriptor_and_contract_of_a_format_are_described() -> None:
    text = (DOCS / "contributing" / "new-source.md").read_text("utf-8")
    named = set(re.findall("`([^`\n]+)`", text))
    members = {name for name in vars(Source) if not name.startswith("_")}
    assert {field.name for field in fields(Format)} | members <= named

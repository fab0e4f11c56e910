"""Every command, option, reason, setting and metric of the program is named in the README, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from publisher.cli.main import cli
from publisher.config.source_sections import source_parts
from publisher.dispatch.kafka import dead_letters
from publisher.dispatch.kafka.records import HEADERS, RECOVERED
from publisher.dispatch.refusals import TOO_LARGE, TOPIC_NAME
from publisher.errors import PublisherError
from publisher.model.change import Reason
from publisher.observing.metrics import Series
from publisher.sources.dispatch_queue.options import QueueTable
from publisher.sources.linkexpress.options import ExtractedTable
from publisher.sources.registry import OPTIONS, SourceFormat
from tests.bench.__main__ import main as bench
from tests.chaos.__main__ import main as chaos
from tests.fuzz.__main__ import main as fuzz

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
SPANS = re.findall("`([^`\n]+)`", PROSE)
WORDS = {word for span in SPANS for word in re.findall(r"[\w-]+", span)}
SPACED = re.sub(r"[^\w-]", " ", TEXT)
REASONS = {*map(str, Reason), TOO_LARGE, TOPIC_NAME}
SCRIPTS = (bench, chaos, fuzz)
"""``./run bench`` and the like."""


def chapter(name: str) -> str:
    """The text of a chapter."""
    return TEXT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def rows_of(text: str, heading: str) -> Iterator[list[str]]:
    """The cells of the rows of a table that begins with a heading."""
    for line in text.partition(f"{heading}\n")[2].splitlines()[1:]:
        if not line.startswith("| "):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def options_of(command: click.Command) -> Iterator[list[str]]:
    """The options of a command, each in its forms."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield parameter.opts


def test_every_command_is_named() -> None:
    assert sorted(cli.commands) == sorted(set(cli.commands) & WORDS)


@pytest.mark.parametrize("command", cli.commands.values(), ids=list(cli.commands))
def test_every_option_is_named(command: click.Command) -> None:
    unnamed = [
        forms for forms in options_of(command) if not any(f"{form} " in SPACED for form in forms)
    ]
    assert unnamed == []


def test_every_option_that_is_named_exists() -> None:
    known = {"--help"}
    for command in (cli, *cli.commands.values(), *SCRIPTS):
        known.update(*options_of(command))
    assert set(re.findall(r"--[a-z][a-z-]+", TEXT)) <= known


def test_every_reason_is_shown_with_its_outcome() -> None:
    shown: list[str] = []
    for outcome, reasons, *_ in rows_of(chapter("Output and journal"), "| outcome | `reason` | |"):
        assert outcome in ("superseded", "ignored", "held", "rejected", "refused")
        shown += re.findall("`([^`]+)`", reasons)
    assert sorted(shown) == sorted(REASONS)


def test_the_reasons_of_a_format_are_those_of_the_program() -> None:
    named = []
    for format_ in ("Change tables", "Linkexpress", "Dispatch queue"):
        named += [cells[0] for cells in rows_of(chapter(format_), "| reason | what to do |")]
        named += [cells[0] for cells in rows_of(chapter(format_), "| reason | |")]
    reasons = {reason for cell in named for reason in re.findall("`([^`]+)`", cell)}
    assert len(reasons) > 10
    assert reasons <= REASONS


@pytest.mark.parametrize("format_", OPTIONS)
def test_every_setting_of_a_format_is_named(format_: SourceFormat) -> None:
    names = {field.name for part in source_parts(format_) for field in fields(part)}
    assert names - WORDS == set()


@pytest.mark.parametrize("table", [ExtractedTable, QueueTable])
def test_every_setting_of_a_table_is_named(table: type) -> None:
    assert {field.name for field in fields(table)} - WORDS == set()


def test_every_metric_is_shown_with_its_labels() -> None:
    shown: dict[str, str] = {}
    for names, labels, _ in rows_of(TEXT, "| metric `xds_publisher_…` | labels | meaning |"):
        for name in re.findall("`([^`]+)`", names):
            shown[name] = labels.strip("`")
    series = Series("job")
    made = {}
    for metric in vars(series).values():
        if not hasattr(metric, "describe"):
            continue
        (described,) = metric.describe()
        ending = {"counter": "_total", "info": "_info"}.get(described.type, "")
        name = described.name.removeprefix("xds_publisher_") + ending
        made[name] = " ".join(label for label in metric._labelnames if label != "job_name")
    assert shown == made


def test_the_headers_of_records_are_named() -> None:
    headers = {*HEADERS, RECOVERED[0], *dead_letters.HEADERS, "raw-bytes"}
    assert {
        header for header in headers if f"`{header}`" not in chapter("Kafka") + chapter("Settings")
    } == set()


def exit_codes(kind: type[PublisherError]) -> set[int]:
    return {kind.exit_code}.union(*map(exit_codes, kind.__subclasses__()))


def test_every_exit_code_is_named() -> None:
    named = re.findall(r"(?:^|· )(\d) ", chapter("Exit codes"), re.MULTILINE)
    assert {int(code) for code in named} == {0, *exit_codes(PublisherError)}

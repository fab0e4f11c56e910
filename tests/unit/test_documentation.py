"""The README and the pages in docs/ say what the program does, and name nothing that it has not."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from publisher.cli.main import cli
from publisher.config.job_file import SECTIONS, load
from publisher.dispatch.refusals import RefusalReason
from publisher.formats.files.file_splits import SUFFIXES
from publisher.model.change import Outcome, Reason
from tests.bench.__main__ import main as bench
from tests.chaos.__main__ import main as chaos
from tests.fuzz.__main__ import main as fuzz
from tests.gate.__main__ import main as gate
from tests.support.documentation import (
    DOCS,
    ROOT,
    agrees,
    blocks,
    comparable,
    run,
    section,
    shown_commands,
    shown_documents,
    text_of,
    written_pages,
)
from tests.support.event_log_files import csv_text, event, read

README = (ROOT / "README.md").read_text("utf-8")
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in written_pages()}
EVERYTHING = "\n".join(TEXTS.values())
WORDS = {
    word for span in re.findall("`([^`\n]+)`", EVERYTHING) for word in re.findall(r"[\w-]+", span)
}
REASONS = {*map(str, Reason), *RefusalReason}
SPOKEN = re.sub(
    r'"\s*f?"',
    "",
    "\n".join(path.read_text("utf-8") for path in (ROOT / "publisher").rglob("*.py")),
)
"""The code with joined string literals, to find messages in it."""
SCRIPTS = (bench, chaos, fuzz, gate)
FOREIGN_OPTIONS = {
    *("--add", "--allow-principal", "--bootstrap-server", "--group", "--operation"),
    *("--resource-pattern-type", "--topic", "--transactional-id"),
    *("--conf", "--host", "--master", "--port", "--work-dir", "--read-only", "--wheel"),
}
"""Options of ``kafka-acls.sh``, ``spark-submit``, ``spark-class``, ``podman`` and ``build``."""
FORMAT_PAGES = {"change-table", "dispatch-queue", "linkexpress"}


def test_the_readme_is_short() -> None:
    assert len(README.encode()) <= 5_000


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"\{ #([\w.-]+) \}", text))


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        target = ROOT / path if path else ROOT / "README.md"
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target.read_text("utf-8")), link


def _options(command: click.Command) -> Iterator[list[str]]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield parameter.opts


def test_every_command_is_described() -> None:
    assert sorted(cli.commands) == sorted(set(cli.commands) & WORDS)


def test_every_named_option_exists() -> None:
    known = {"--help", *FOREIGN_OPTIONS}
    for command in (cli, *cli.commands.values(), *SCRIPTS):
        known.update(*_options(command))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", EVERYTHING)) <= known


@pytest.mark.parametrize("name", sorted(FORMAT_PAGES))
def test_the_reasons_of_a_format_exist(name: str) -> None:
    table = (
        text_of(f"reference/formats/{name}.md").partition("\n| reason |")[2].partition("\n\n")[0]
    )
    reasons = {
        reason
        for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
        for reason in re.findall("`([^`]+)`", row)
    }
    assert len(reasons) >= 5
    assert reasons <= REASONS


@pytest.mark.parametrize("name", TEXTS)
def test_shown_settings_exist(name: str) -> None:
    for block in blocks(TEXTS[name], "toml"):
        assert set(tomllib.loads(block)) <= {*SECTIONS, "source"}


@pytest.mark.parametrize("name", TEXTS)
def test_shown_job_files_can_be_loaded(name: str, tmp_path: Path) -> None:
    for block in blocks(TEXTS[name], "toml"):
        if {"sources", "dispatch"} <= tomllib.loads(block).keys():
            path = tmp_path / "job.toml"
            path.write_text(block, "utf-8")
            load(path)


def test_the_job_file_of_the_first_tutorial_can_be_used(tmp_path: Path) -> None:
    (block,) = blocks(text_of("tutorials/first-documents.md"), "toml")
    path = tmp_path / "people.toml"
    path.write_text(block, "utf-8")
    settings = load(path).for_publish()
    assert settings.name == "people"
    assert settings.sources[0].snapshots == (tmp_path / "log.csv",)


def test_triggers_of_the_tutorial_log_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chapter = section(text_of("tutorials/log-to-kafka.md"), "Log a table")
    commands = list(shown_commands(chapter))
    assert len(commands) == 4
    for command in commands:
        assert comparable(run(command.line)) == list(command.printed)


def test_files_are_inspected_and_validated_as_the_tutorial_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = text_of("tutorials/first-documents.md")
    Path("log.csv").write_text(blocks(text, "csv")[0], "utf-8")
    _, modify, *_ = shown_documents(text)
    wrong = modify.replace("<modify class-name", "<modify clas-name")
    Path("mistake.xds").write_text(f"{modify}\n{modify}\n{wrong}\n", "utf-8")
    for heading in ("Look at the input", "Look at the output"):
        for command in shown_commands(section(text, heading)):
            if "part-" not in command.line:
                assert set(command.printed) <= set(comparable(run(command.line)))


def test_an_event_on_a_child_table_is_explained_as_the_page_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chapter = section(text_of("explanation/classes.md"), "What an event was resolved to")
    Path("log.csv").write_text(blocks(chapter, "csv")[0], "utf-8")
    Path("job.toml").write_text(blocks(chapter, "toml")[0], "utf-8")
    run(".venv/bin/xds-publisher replay log.csv --to out -c job.toml")
    (command,) = shown_commands(chapter)
    printed = [line for line in run(command.line).splitlines() if line]
    assert len(printed) == len(command.printed)
    assert all(map(agrees, command.printed, printed))


def test_calls_of_the_table_queue_are_inspected_as_the_page_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = shown_commands(text_of("reference/formats/table-queue.md"))
    record = f"05000000{'USR'.ljust(66).encode().hex()}0100"
    common: dict[str, object] = {"sweep": 17, "node": "DEMO", "code_page": "UTF-8"}
    element = {"completion": "NORMAL", "code": 0, "record": record}
    calls: list[dict[str, object]] = [element, element, element, element, {"completion": "EORR"}]
    with Path("queue.jsonl").open("w") as file:
        for ordinal, call in enumerate(calls, 1):
            time = f"2026-05-04T08:00:00.00{ordinal}Z"
            file.write(json.dumps({**common, **call, "ordinal": ordinal, "time": time}) + "\n")
    assert tuple(comparable(run(command.line))[-2:]) == command.printed


def test_errors_of_a_job_file_are_those_that_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"^error: .*$", text_of("how-to/job-files.md"), re.MULTILINE)
    wrong = '[run]\nlane = 2\n[job]\nreject_budget = "1"\n[[sources]]\nsnapshots = ["log.csv"]\n'
    Path("log.csv").write_text(csv_text([event()]))
    Path("wrong.toml").write_text(wrong)
    assert comparable(run(".venv/bin/xds-publisher check -c wrong.toml")) == shown


def test_defaults_beside_parameters_of_the_driver_are_those_of_the_settings() -> None:
    page, settings = text_of("reference/driver-parameters.md"), text_of("reference/settings.md")
    rows = re.findall(
        r"^\| [^|]+ \| \[[^|]*settings\.md#([\w.-]+)\)[^|]* \| [^|]*, `([^`|]+)` \|",
        page,
        re.MULTILINE,
    )
    assert len(rows) >= 18
    for anchor, default in rows:
        assert re.search(
            rf"\{{ #{re.escape(anchor)} \}} .* · default `{re.escape(default)}`$",
            settings,
            re.MULTILINE,
        ), anchor


def test_the_consumer_is_the_same_on_both_pages() -> None:
    pages = [text_of(f"{name}.md") for name in ("tutorials/log-to-kafka", "how-to/consume")]
    assert blocks(pages[0], "python") == blocks(pages[1], "python")[:1]


def test_a_line_that_is_no_record_is_kept_as_it_is(tmp_path: Path) -> None:
    lines = csv_text([event(), event(2)]).replace("John", 'Jo"hn', 1).splitlines()
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    records, _ = read(path)
    (rejected,) = [record for record in records if record["outcome"] == Outcome.REJECTED]
    raw = json.loads(str(rejected["raw"]))
    assert raw == lines[1]
    path.write_text(f"{lines[0]}\n{raw.replace('Jo', 'Jo' + chr(34))}\n")
    (corrected,), _ = read(path)
    assert corrected["outcome"] is None


def test_every_kind_of_file_is_named() -> None:
    assert all(f"`{suffix}`" in text_of("reference/formats/files.md") for suffix in SUFFIXES)


def test_every_page_of_a_format_names_its_example() -> None:
    for path in sorted((DOCS / "reference" / "formats").glob("*.md")):
        if path.stem != "files":
            assert f"conf/{path.stem}.toml" in path.read_text("utf-8")


def test_messages_of_lost_ledgers_are_those_of_the_program() -> None:
    chapter = section(text_of("how-to/operate.md"), "Recover a lost ledger")
    shown = [
        message.strip("… ")
        for row in re.findall(r"^\| (`.*?) \|", chapter, re.MULTILINE)
        for message in re.findall("`([^`]+)`", row)
    ]
    assert len(shown) > 5
    for message in shown:
        for part in re.split("[…{]", message):
            assert part.strip() in SPOKEN, message


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("how-to/operate.md", " to N: "),
        ("how-to/operate.md", "a newer instance of the job works in "),
        ("how-to/cluster.md", " executor(s) run this package and see "),
        ("reference/formats/linkexpress.md", " does not fit the settings "),
        ("reference/formats/change-table.md", "late: "),
        ("reference/formats/change-table.md", "waiting: "),
    ],
)
def test_quoted_messages_are_those_of_the_program(page: str, message: str) -> None:
    assert message in re.sub(r"\s+", " ", text_of(page))
    assert message in SPOKEN


def test_a_shortened_line_agrees_with_its_beginning() -> None:
    assert agrees("<nds …", "<nds dtdversion>")
    assert not agrees("<nds …", "<input>")

"""The README says of settings what the program does, and its links lead somewhere."""

from __future__ import annotations

import json
import re
import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.config.job_file import SECTIONS, load
from publisher.config.validation import option_defaults, option_names
from publisher.journal.decisions import DECISION_SCHEMA
from publisher.journal.documents import INDEX_SCHEMA
from publisher.journal.lane_writer import LOOKUP_SCHEMA
from publisher.model.change import Outcome
from publisher.sources.files.file_splits import SUFFIXES
from tests.support.event_log_files import csv_text, event, read

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
SETTINGS = TEXT.partition("\n## Settings\n")[2].partition("\n## ")[0]
OTHERWISE_SET = {("documents", "version"), ("spark", "conf")}
"""The program's version; any setting of Spark."""


def shown() -> Iterator[tuple[str, str, object]]:
    """Section, name and default of each setting in the tables."""
    section = ""
    for line in SETTINGS.splitlines():
        if heading := re.match(r"\*\*`\[+(\w+)", line):
            section = heading[1]
        elif line.startswith("| `"):
            names, defaults, _ = line.strip("| ").split(" | ", 2)
            values = [
                None if dash else tomllib.loads(f"x = {value}")["x"]
                for value, dash in re.findall("`([^`]*)`|(–)", defaults)
            ]
            found = re.findall(r'`(?:\[(\w+)\] )?("?[\w.…]+"?)`', names)
            values = values * len(found) if len(values) == 1 else values
            for (own, name), value in zip(found, values, strict=True):
                yield own or section, name if '"' not in name else "conf", value


def declared() -> Iterator[tuple[str, str, object]]:
    for section, kinds in SECTIONS.items():
        for kind in kinds:
            defaults = option_defaults(kind)
            for name in option_names(kind):
                if (section, name) in OTHERWISE_SET or (section, name) == ("tables", "name"):
                    yield section, name, None
                else:
                    yield section, name, plain(defaults.get(name))


def plain(value: object) -> object:
    if isinstance(value, tuple | frozenset):
        return sorted(value)
    return str(value) if isinstance(value, str | Path) else value


def test_every_setting_is_shown_with_its_default() -> None:
    assert sorted(shown(), key=str) == sorted(declared(), key=str)


@pytest.mark.parametrize("schema", [DECISION_SCHEMA, INDEX_SCHEMA, LOOKUP_SCHEMA])
def test_every_column_of_the_journal_is_named(schema: object) -> None:
    section = TEXT.partition("\n## Output and journal\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"\w+", " ".join(re.findall("`([^`]*)`", section))))
    assert set(schema.names) <= named  # type: ignore[attr-defined]


def test_the_job_file_of_the_tour_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    path.write_text(TEXT.partition("```toml\n")[2].partition("```")[0], "utf-8")
    settings = load(path).for_publish()
    assert settings.name == "people"
    assert settings.sources[0].snapshots == (tmp_path / "log.csv",)


def test_the_chapter_on_triggers_does_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chapter = (
        TEXT.partition("\n## From your own tables\n")[2].partition("```\n")[2].partition("```")[0]
    )
    shown = ""
    for line in chapter.splitlines():
        if line.startswith("$ sqlite3 hr.db "):
            with closing(sqlite3.connect("hr.db")) as database:
                for statement in line.partition('"')[2].rstrip('"').split(";"):
                    for row in database.execute(statement):
                        shown += "|".join("" if cell is None else str(cell) for cell in row) + "\n"
                database.commit()
        elif line.startswith("$ "):
            shown += CliRunner().invoke(cli, line.split()[2:]).output
    printed = [line for line in chapter.splitlines() if not line.startswith("$ ")]
    assert shown.replace(str(tmp_path), "…").splitlines() == printed
    assert len(printed) > 10


def test_a_line_that_is_no_record_is_shown_as_it_stood(tmp_path: Path) -> None:
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
    assert all(suffix in TEXT for suffix in SUFFIXES)


def test_links_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert links
    for link in links:
        assert link[1:] in anchors if link.startswith("#") else (ROOT / link).exists(), link

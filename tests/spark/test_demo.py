"""The demo gives what it says, and the commands that it prints work as they are printed."""

import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from publisher.cli.main import cli
from tests.support.documentation import ROOT, agrees, blocks, run, shown_commands, text_of
from tests.support.notebooks import read_cells, run_cells, shown

pytestmark = pytest.mark.xdist_group("spark")

DEMO = [sys.executable, "-m", "publisher.cli", "demo"]


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    directory = tmp_path_factory.mktemp("tour")
    env = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(DEMO, cwd=directory, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return directory, done.stdout


def test_shows_a_document_and_the_outcomes_on_one_screen(tour: tuple[Path, str]) -> None:
    _, shown = tour
    lines = shown.splitlines()
    assert len(lines) < 60
    assert '<modify class-name="usr">' in lines
    assert '    <add-value><value type="string">John</value></add-value>' in lines
    cells = [line.split() for line in lines]
    outcomes = ("published", "superseded", "ignored", "held", "rejected", "read")
    rows = {words[0]: words[1] for words in cells if len(words) > 1 and words[0] in outcomes}
    *counts, read = (int(rows[name].replace(",", "")) for name in outcomes)
    assert min(counts) > 0
    assert sum(counts) == read


def test_explains_and_repairs_on_screen(
    tour: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, shown = tour
    monkeypatch.chdir(directory)
    command = next(
        line for line in shown.splitlines() if line.startswith("$ xds-publisher explain")
    )
    answer = CliRunner().invoke(cli, shlex.split(command)[2:])
    assert answer.output in shown
    assert "outcome     superseded" in shown
    assert "usr_phone.phoneno: 222-2222, 333-3333 instead of 333-3333, 555-5555" in shown
    assert "All equal: consumers have what the tables have." in shown
    answer = CliRunner().invoke(cli, ["verify", "-c", "demo-output/demo.toml"])
    assert answer.exit_code == 0, answer.output


def test_writes_a_page_about_its_runs(tour: tuple[Path, str]) -> None:
    directory, shown = tour
    assert "Where every record went: open demo-output/report.html in a browser." in shown
    page = (directory / "demo-output" / "report.html").read_text("utf-8")
    assert "demo-000001" in page


def test_every_command_that_it_prints_works(
    tour: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, shown = tour
    monkeypatch.chdir(directory)
    commands = shown.partition("Your turn\n")[2].splitlines()
    assert len(commands) == 3
    for command in commands:
        line = command.replace(" URL ", " sqlite:///demo-output/company.sqlite ")
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, command + done.stderr


def test_a_terminal_gets_bold_values_in_no_colour_of_its_own(tmp_path: Path) -> None:
    env = {**os.environ, "COLUMNS": "80", "FORCE_COLOR": "1"}
    done = subprocess.run(DEMO, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert re.search("\x1b\\[[0-9;]*1mJohn\x1b", done.stdout)
    assert not re.search("\x1b\\[[0-9;]*(37|97)m", done.stdout)  # white cannot be read on white


def test_leaves_a_directory_alone_that_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    done = subprocess.run([*DEMO, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "name another directory" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("page", ["docs/tutorials/replay-and-explain.md"])
def test_the_documentation_shows_what_it_prints(
    page: str, tour: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, printed = tour
    text = (ROOT / page).read_text("utf-8")
    lines = [line.rstrip() for line in printed.splitlines()]
    shown = [block for block in blocks(text) if "Every record of the log" in block]
    assert shown
    for line in shown[0].splitlines():
        if line not in ("…", "$ ./run demo") and line:
            assert any(agrees(line, candidate) for candidate in lines), line
    monkeypatch.chdir(directory)
    explanations = [command for command in shown_commands(text) if " explain " in command.line]
    assert explanations
    for command in explanations:
        answer = run(command.line).splitlines()
        assert len(answer) == len(command.printed)
        for pair in zip(command.printed, answer, strict=True):
            assert agrees(*pair)


def test_the_queries_of_a_ledger_answer(
    tour: tuple[Path, str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = tour
    monkeypatch.chdir(directory)
    page = text_of("how-to/query-the-ledger.md")
    (program,) = blocks(page, "python")
    exec(program, {"spark": spark})
    unpublished, documents, lookups = (spark.sql(sql).collect() for sql in blocks(page, "sql"))
    counts = [row.records for row in unpublished]
    assert counts == sorted(counts, reverse=True) != []
    assert {row.outcome for row in unpublished} <= {"superseded", "ignored", "held", "rejected"}
    assert [row.operation for row in documents] == ["add", "modify", "modify"]
    assert all("<association>idu=1,table=usr," in row.text for row in documents)
    assert {row.answer for row in lookups} == {"gone"}
    (console,) = blocks(page, "console")
    asked = [console.split('"')[1], *blocks(text_of("reference/ledger.md"), "sql")]
    with closing(sqlite3.connect("demo-output/.xds-publisher/demo/ledger.db")) as ledger:
        assert all(ledger.execute(sql).fetchall() for sql in asked)


def test_the_notebook_prints_what_it_shows(
    tour: tuple[Path, str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = tour
    monkeypatch.chdir(directory)
    cells = read_cells()
    assert run_cells(cells) == [shown(cell) for cell in cells]

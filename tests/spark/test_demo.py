"""The demo gives what it says, and the commands that it prints work as they are printed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from publisher.cli.main import cli
from publisher.journal.fold_runs import Folding
from publisher.reports.explain import explain
from tests.support.documentation import ROOT, agrees, blocks, run, shown_commands, text_of
from tests.support.finished_runs import finish_runs, make_journals
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


def test_shows_documents_and_counts(tour: tuple[Path, str]) -> None:
    _, shown = tour
    for kind in ("add", "modify", "delete"):
        assert f'<{kind} class-name="usr">' in shown
    assert '"usr_phone.phoneno">' in shown
    assert '<value type="dn"' in shown
    for outcome in ("published", "superseded", "ignored", "held", "rejected", "read"):
        assert f"│ {outcome} " in shown


def test_shows_the_recordings_side_by_side(tour: tuple[Path, str]) -> None:
    _, shown = tour
    for source in ("company", "change-tables", "queue", "extract"):
        assert f" {source} │" in shown
    for attribute, change, group in (
        ("fname", "unknown → John", "event log, Linkexpress"),
        ("manager", "idu=3 → idu=4", "all but Linkexpress"),
        ("usr_phone.phoneno", "111-1111 → 333-3333", "all"),
        ("(documents)", "3", "Linkexpress"),
    ):
        cells = [attribute, change, group]
        assert cells in [
            [cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()
        ]
    sides = shown.partition("The same day")[2].splitlines()
    assert any(line.split()[:2] == ["A", "add"] and line.endswith("all") for line in sides)
    assert any(line.split()[:2] == ["A", "delete"] and line.endswith("all") for line in sides)
    assert "lead to the same values in" in shown


def test_tables_fit_a_terminal_of_80_columns(tour: tuple[Path, str]) -> None:
    _, shown = tour
    sides = shown.partition("One job, one journal")[2].partition("old → new: the documents")[0]
    assert sides
    assert all(len(line) <= 80 for line in sides.splitlines())
    assert "…" not in sides
    first_cells = [line.split("│")[1] for line in sides.splitlines() if line.startswith("│")]
    assert all(cell.strip() for cell in first_cells)  # no line goes on from the one before


def test_shows_what_a_comparison_finds(tour: tuple[Path, str]) -> None:
    _, shown = tour
    assert "one for each object that changed" in shown
    for table, counts in (
        ("usr", "usr, usr_phone 0 2 0"),
        ("employee", "employee 0 12 0"),
        ("membership", "membership 1 0 1"),
    ):
        (line,) = [line for line in shown.splitlines() if line.startswith(f"│ {table} ")]
        assert line.replace("│", " ").split() == [table, *counts.split()]


def test_verifies_what_the_comparison_published(tour: tuple[Path, str]) -> None:
    _, shown = tour
    assert "verify finds no difference: 1 object is equal, and 12,680 were never published" in shown


def test_ends_with_the_history_of_a_user_and_a_page(tour: tuple[Path, str]) -> None:
    directory, shown = tour
    history = shown.partition("History of user 1")[2]
    systems = [line for line in history.splitlines()[1:] if line[:1] not in ("", " ")]
    assert systems[:4] == [
        "event log",
        "change tables, dispatch queue",
        "Linkexpress",
        "comparison of tables, later",
    ]
    assert "  modify usr_phone.phoneno: unknown → 333-3333, 555-5555" in history
    assert "Where every record went: open demo-output/report.html in a browser." in history
    page = (directory / "demo-output" / "report.html").read_text("utf-8")
    [read] = [line for line in shown.splitlines() if re.fullmatch(r"│ read  .*│.*│.*│.*│.*│", line)]
    records = sum(int(cell.replace(",", "")) for cell in read.split("│")[2:-1])
    assert f"{records:,}" in page


@pytest.mark.usefixtures("local_engine")
def test_every_command_that_it_prints_works(
    tour: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, shown = tour
    monkeypatch.chdir(directory)
    commands = [line.strip() for line in shown.splitlines() if line.startswith("    /")]
    assert len(commands) == 10
    programs, answers = set(), 0
    for command in commands:
        program, *words = shlex.split(command)
        if program in programs and not {*command} & {*"*|"}:  # needs no shell
            answer = CliRunner().invoke(cli, words)
            assert answer.exit_code == 0, command + answer.output
            answers += 1
            continue
        programs.add(program)
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, command + done.stderr
    assert (len(programs), answers) == (1, 7)


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
        if line not in ("…", "$ ./run demo"):
            assert any(agrees(line, candidate) for candidate in lines), line
    monkeypatch.chdir(directory)
    explanations = [command for command in shown_commands(text) if " explain " in command.line]
    assert explanations
    for command in explanations:
        answer = run(command.line).splitlines()
        assert len(answer) == len(command.printed)
        for pair in zip(command.printed, answer, strict=True):
            assert agrees(*pair)


def test_the_query_of_segments_answers(tmp_path: Path, spark: SparkSession) -> None:
    journals = make_journals(tmp_path)
    runs = finish_runs(journals, 4)
    assert Folding(journals, lambda: None, least=1).step()
    page = text_of("how-to/query-the-journal.md")
    (statement,) = (sql for sql in blocks(page, "sql") if "segments" in sql)
    rows = spark.sql(statement.replace(".xds-publisher/people", str(journals.root))).collect()
    association = "<association>idu=1,table=usr</association>"
    expected = [story for story in explain(journals.root, "idu=1") if story.run != runs[-1]]
    documents = [story.document.text for story in expected if story.document is not None]
    assert [row.text for row in rows] == documents != []
    assert all(association in text for text in documents)


def test_the_queries_of_a_journal_answer(
    tour: tuple[Path, str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = tour
    page = text_of("how-to/query-the-journal.md")
    statements = [
        sql.replace("demo-output", f"{directory}/demo-output")
        for sql in blocks(page, "sql")
        if "demo-output" in sql
    ]
    unpublished, documents, lookups = (spark.sql(sql).collect() for sql in statements)
    (program,) = blocks(page, "python")
    monkeypatch.chdir(directory)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert [row.records for row in unpublished] == [
        int(line.split()[-1]) for line in done.stdout.splitlines()[1:-1]
    ]
    assert [row.operation for row in documents] == ["modify"] * 4  # one from each system
    assert {row.answer for row in lookups} == {"gone"}


def test_the_notebook_prints_what_it_shows(
    tour: tuple[Path, str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = tour
    monkeypatch.chdir(directory)
    cells = read_cells()
    assert run_cells(cells) == [shown(cell) for cell in cells]

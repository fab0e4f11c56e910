"""Commands on a terminal: documents over several lines, tables, styles; in a pipe nothing of them."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from tests.support.documentation import blocks, section, text_of
from tests.support.programs import ROOT, fork_programs
from tests.support.terminal import on_terminal, plain

ESCAPE = "\x1b"
JOB = """\
[[sources]]
schema = "indirect"
snapshots = ["log.csv"]
[dispatch]
path = "published"
[job]
reject_budget = 1
"""


@pytest.fixture(scope="module", autouse=True)
def programs() -> Iterator[None]:
    with fork_programs():
        yield


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of the first tutorial, published with a job."""
    directory = tmp_path_factory.mktemp("terminal")
    log = blocks(text_of("tutorials/first-documents.md"), "csv")[0]
    (directory / "log.csv").write_text(log, "utf-8")
    (directory / "people.toml").write_text(JOB, "utf-8")
    done = piped("publish", "-c", "people.toml", directory=directory)
    assert done.returncode == 0, done.stderr
    return directory


def piped(*words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "publisher.cli", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )


def test_explain_lays_the_document_out(here: Path) -> None:
    shown, code = on_terminal("explain", "-c", "people.toml", "3", directory=here)
    assert code == 0
    document = plain(shown).partition("\n  <nds")[2]
    assert (
        "<nds" + document.rstrip("\n")
        == """\
<nds dtdversion="2.0" ndsversion="8.x">
    <source>
      <product version="0.1.0">XDS Publisher</product>
      <contact/>
    </source>
    <input>
      <modify class-name="usr">
        <association>idu=01,table=usr,schema=indirect</association>
        <modify-attr attr-name="lname">
          <remove-value><value type="string">Frost</value></remove-value>
          <add-value>
            <value type="string">O'Hara &amp; "Sons"</value>
          </add-value>
        </modify-attr>
      </modify>
    </input>
  </nds>"""
    )
    assert max(map(len, document.splitlines())) <= 80


def test_values_are_bold_and_tags_dim_on_any_background(here: Path) -> None:
    shown, _ = on_terminal("explain", "-c", "people.toml", "3", directory=here)
    assert f"{ESCAPE}[1mFrost{ESCAPE}[0m" in shown
    assert f'{ESCAPE}[2m<value type="string">{ESCAPE}[0m' in shown
    assert set(re.findall(r"\x1b\[([0-9;]*)m", shown)) == {"0", "1", "2"}


@pytest.mark.parametrize("words", [["explain", "-c", "people.toml", "3"], ["inspect", "log.csv"]])
def test_no_color_is_obeyed(here: Path, words: list[str]) -> None:
    coloured, _ = on_terminal(*words, directory=here)
    shown, _ = on_terminal(*words, directory=here, environment={"NO_COLOR": "1"})
    assert ESCAPE not in shown
    assert shown == plain(coloured)


def test_a_rehearsal_lays_documents_out(here: Path) -> None:
    words = ["replay", "log.csv", "--schema", "indirect", "--to", "out", "--dry-run"]
    shown, code = on_terminal(*words, directory=here)
    assert code == 0
    assert "\n\n<nds dtdversion" in plain(shown)
    assert (
        '\n      <add-attr attr-name="fname"><value type="string">Jack</value></add-attr>\n'
        in plain(shown)
    )
    lines = piped(*words, directory=here).stdout.splitlines()
    assert len([line for line in lines if line.startswith("<nds") and line.endswith("</nds>")]) == 3


def test_json_documents_are_laid_out(here: Path) -> None:
    (here / "json.toml").write_text(JOB + '[documents]\nvalue_format = "json"\n', "utf-8")
    shown, code = on_terminal("publish", "-c", "json.toml", "--dry-run", directory=here)
    assert code == 0
    document = plain(shown).partition("\n\n{")[2].partition("\n}\n")[0]
    assert json.loads("{" + document + "}")
    assert f"{ESCAPE}[1m" in shown


def test_no_value_can_drive_the_terminal(here: Path) -> None:
    header = (here / "log.csv").read_text("utf-8").splitlines()[0]
    value = "a\u202e\x9b31mb\x7f"
    row = f"1,idu=1,N,1,2026-05-04 08:00:00,hr,indirect.usr,fname,,{value}"
    (here / "hostile.csv").write_text(f"{header}\n{row}\n", "utf-8")
    for words in (
        ["inspect", "hostile.csv"],
        ["replay", "hostile.csv", "--to", "hostile", "--dry-run"],
    ):
        shown, code = on_terminal(*words, directory=here)
        assert code == 0
        assert "fname" in shown
        assert all(c.isprintable() or c == "\n" for c in plain(shown)), ascii(shown)


def test_inspect_prints_the_table_of_the_tutorial(here: Path) -> None:
    shown, code = on_terminal("inspect", "log.csv", "--schema", "indirect", directory=here)
    assert code == 0
    chapter = section(text_of("tutorials/first-documents.md"), "Look at the input")
    assert plain(shown) == blocks(chapter, "text")[0]
    lines = piped("inspect", "log.csv", directory=here).stdout.splitlines()
    assert [json.loads(line)["record"] for line in lines] == [2, 3, 4, 5, 6, 7]


def test_inspect_names_files_and_cuts_long_values(here: Path) -> None:
    header, *_ = (here / "log.csv").read_text("utf-8").splitlines()
    row = f"1,idu=1,N,1,2026-05-04 08:00:00,hr,indirect.usr,fname,,{'x' * 500}"
    (here / "long.csv").write_text(f"{header}\n{row}\n", "utf-8")
    shown, _ = on_terminal("inspect", "log.csv", "long.csv", directory=here, columns=120)
    names = [line for line in plain(shown).splitlines() if line.endswith(".csv")]
    assert names == ["log.csv", "long.csv"]
    assert "x… (500" in plain(shown)
    assert max(map(len, plain(shown).splitlines())) <= 120


def test_check_says_that_all_is_well_and_what_is_next(here: Path) -> None:
    shown, code = on_terminal("check", "-c", "people.toml", directory=here)
    assert code == 0
    *checks, last = plain(shown).splitlines()
    assert last == f"{len(checks)} checks passed; next: xds-publisher publish -c people.toml"
    assert f"{ESCAPE}[32mok" in shown
    piped_lines = piped("check", "-c", "people.toml", directory=here).stdout.splitlines()
    assert piped_lines == checks


def test_check_of_a_table_continues_with_follow(here: Path) -> None:
    words = [
        "ddl",
        "--database",
        "sqlite:///hr.db",
        "--table",
        "usr",
        "--style",
        "per-field",
        "--apply",
    ]
    script = "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT);"
    subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sqlite3; sqlite3.connect('hr.db').executescript({script!r})",
        ],
        cwd=here,
        check=True,
    )
    assert piped(*words, directory=here).returncode == 0
    live = JOB.replace('snapshots = ["log.csv"]', 'table = "event_log"\nurl = "sqlite:///hr.db"')
    (here / "live job.toml").write_text(live.replace('schema = "indirect"\n', ""), "utf-8")
    shown, code = on_terminal("check", "-c", "live job.toml", directory=here)
    assert code == 0, shown
    assert shown.endswith("next: xds-publisher publish --follow -c 'live job.toml'\n")


def test_a_failed_check_is_red(here: Path) -> None:
    (here / "bad.toml").write_text(JOB.replace("log.csv", "none.csv"), "utf-8")
    shown, code = on_terminal("check", "-c", "bad.toml", directory=here)
    assert code == 3
    assert f"{ESCAPE}[31;1mFAILED" in shown
    assert "passed" not in shown


def test_validate_counts_what_is_valid(here: Path) -> None:
    part, count = str(here / "two.xds"), 2
    published = next(p for p in (here / "published").rglob("part-*.xds") if p.stat().st_size)
    document = published.read_text("utf-8").splitlines()[0]
    Path(part).write_text(f"{document}\n" * count, "utf-8")
    shown, code = on_terminal("validate", part, directory=here)
    assert (shown, code) == (f"1 file, {count} documents, all valid\n", 0)
    assert piped("validate", part, directory=here).stdout == ""


def test_status_has_one_form_of_time(here: Path) -> None:
    text = piped("status", "-c", "people.toml", directory=here).stdout
    times = re.findall(r"\d{4}-\d\d-\d\dT[^ ,\n]*", text)
    assert len(times) == 2
    assert all(re.fullmatch(r"[\d-]{10}T[\d:]{8}\+00:00", time) for time in times)


@pytest.mark.parametrize("tail", [[], ["--json"]])
def test_a_page_needs_neither_directory_nor_name(here: Path, tail: list[str]) -> None:
    done = piped("report", "-c", "people.toml", *tail, directory=here)
    assert done.returncode == 0, done.stderr
    assert "idu=1" in (here / "report.html").read_text("utf-8")
    (here / "report.html").unlink()


def test_questions_take_the_job_or_a_directory_in_the_same_place(here: Path) -> None:
    place = str(here / ".xds-publisher" / "people")
    for command, words in (("explain", ["3"]), ("history", ["idu=1"]), ("rejects", [])):
        of_job = piped(command, "-c", "people.toml", *words, directory=here)
        of_directory = piped(command, place, *words, directory=here)
        assert of_job.returncode == of_directory.returncode == 0, of_job.stderr
        assert of_job.stdout == of_directory.stdout != ""
    old_order = piped("history", "idu=1", place, directory=here)
    assert old_order.stdout == piped("history", place, "idu=1", directory=here).stdout
    named = piped("diff", "-c", "people.toml", "people-000001", "people-000001", directory=here)
    assert (named.returncode, "6 same" in named.stdout) == (0, True)


@pytest.mark.parametrize("command", ["explain", "history", "report", "rejects", "diff"])
def test_a_job_file_in_place_of_a_ledger_is_told_the_option(
    here: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    words = {"explain": ["idu=1"], "history": ["idu=1"], "diff": ["other"]}.get(command, [])
    result = CliRunner().invoke(cli, [command, "people.toml", *words])
    assert result.exit_code == 2
    assert "people.toml has no ledger: name a job file with -c people.toml" in result.stderr

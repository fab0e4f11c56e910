"""Creates the company, publishes its event log, and runs commands that ask about it."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from publisher.config.job_file import load
from publisher.console import Progress
from publisher.demo.company import JACK, NOW, REJECTED, SUPERSEDED, Company
from publisher.demo.database import change_phone_unlogged, write_database, write_snapshot
from publisher.demo.show import find_operation, print_operation, print_outcomes
from publisher.errors import InternalError, UsageError
from publisher.ledger.durable import write_report
from publisher.reports.page.build import build_report
from publisher.resources import resource
from publisher.runs.publish import publish

DATABASE = "company.sqlite"
SNAPSHOT = "event-log.csv"
JOB = "demo.toml"
REPORT = "report.html"
DEMO_FILES = (DATABASE, SNAPSHOT, JOB)

Run: TypeAlias = Callable[[Sequence[str]], tuple[int, list[str]]]
"""Runs a command of the program; returns its exit code (0, or that of findings) and the lines it prints."""
Bar: TypeAlias = Callable[[], AbstractContextManager[Progress | None]]
"""Shows the progress of a run."""


def run_demo(console: Console, directory: Path, run: Run, bar: Bar) -> None:
    """Runs the whole demo.

    Raises:
        UsageError: The directory contains anything but an earlier demo.
        InternalError: The output is not what the demo promises.
    """
    check_directory(directory)
    company = prepare(directory)
    console.print(
        f"A made-up company, {len(company.users):,} people, logged {len(company.log):,} changes in a week.\n"
    )
    with bar() as progress:
        settings = load(directory / JOB)
        report = publish(settings, now=datetime.fromisoformat(NOW), progress=progress)
    print_jack(console, Path(report.target))
    print_outcomes(console, report)
    console.print("superseded: another event publishes the same column or row.\n", style="dim")
    job = ["-c", _word(directory / JOB)]
    print_explanation(console, run, job)
    print_repair(console, directory, run, job)
    print_report(console, directory, settings.ledger_folder)
    print_next(console, job)


def check_directory(directory: Path) -> None:
    """Raises ``UsageError`` if the directory contains anything but an earlier demo."""
    foreign = not all((directory / name).is_file() for name in DEMO_FILES)
    if foreign and directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty and not from a demo: name another directory")


def prepare(directory: Path) -> Company:
    """Creates database, snapshot of the log and job file in the directory."""
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    company = Company()
    company.live_through_a_week()
    write_database(directory / DATABASE, company)
    write_snapshot(directory / SNAPSHOT, company)
    shutil.copyfile(resource("conf/demo.toml"), directory / JOB)
    return company


def print_jack(console: Console, documents: Path) -> None:
    """Prints the document in which Jack gets another name."""
    association = f"idu={JACK},table=usr,schema=indirect"
    operation = find_operation(documents, "modify", association)
    if operation is None:
        raise InternalError(f"{documents} has no <modify> of {association}")
    console.print("[bold]User 1, Jack, gets another name and phone: two events, one document")
    print_operation(console, operation)
    console.print()


def print_explanation(console: Console, run: Run, job: Sequence[str]) -> None:
    """Runs ``explain``, and prints what it prints."""
    console.print(f"[bold]? Row {SUPERSEDED} changed a name. Where is its document?")
    words = ["explain", *job, str(SUPERSEDED)]
    _print_command(console, words)
    _print_lines(console, run(words)[1])


def print_repair(console: Console, directory: Path, run: Run, job: Sequence[str]) -> None:
    """Changes a phone without an event; ``verify`` finds the difference and repairs it.

    Raises ``InternalError`` if it finds none, or documents and tables differ after the repair.
    """
    words = ["verify", *job]
    change_phone_unlogged(directory / DATABASE)
    console.print("\n[bold]! Somebody changes a phone behind the log's back. Who notices?")
    _print_command(console, words)
    found, findings = run(words)
    _print_lines(console, findings[1:])
    _print_command(console, [*words, "--repair"])
    run([*words, "--repair"])
    code, lines = run(words)
    if code or not found:
        raise InternalError("verify: " + "; ".join(lines))
    _print_command(console, words)
    _print_lines(console, lines[1:])
    console.print("[bold green]All equal: consumers have what the tables have.")


def print_report(console: Console, directory: Path, ledger: Path) -> None:
    """Writes the page of the runs, and prints its path."""
    page = directory / REPORT
    write_report(page, build_report([ledger], datetime.now(UTC)).page)
    console.print(f"\n[bold]Where every record went[/]: open {_relative(page)} in a browser.")


def print_next(console: Console, job: Sequence[str]) -> None:
    """Prints commands that work as they are printed."""
    program = Path(sys.executable).with_name("xds-publisher")
    on_path = shutil.which("xds-publisher") == str(program)
    name = "xds-publisher" if on_path else _word(program)
    console.print("[bold]Your turn")
    for words, comment in (
        (["explain", *job, str(REJECTED)], "rejected: why?"),
        (["history", *job, f"idu={JACK}"], "user 1"),
        (["init", "--database", "URL", "-o", "hr.toml"], "yours"),
    ):
        console.print(f"  {' '.join([name, *words])}  [dim]# {comment}", soft_wrap=True)


def _print_command(console: Console, words: Sequence[str]) -> None:
    console.print(f"$ xds-publisher {' '.join(words)}", markup=False, soft_wrap=True)


def _print_lines(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _word(path: Path) -> str:
    """Writes a path as a word of a shell, relative if possible."""
    return shlex.quote(str(_relative(path)))


def _relative(path: Path) -> Path:
    """Makes a path relative if it is below the working directory."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path

"""Creates the company, publishes its event log and the recordings of other systems; prints the results."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.demo.acts import Act
from publisher.demo.compare import lines
from publisher.demo.comparison import JOB as COMPARISON
from publisher.demo.comparison import SAMPLES, compare, print_comparison, print_verification
from publisher.demo.consumer import agreed_objects
from publisher.demo.database import write_database, write_snapshot
from publisher.demo.identity import USER, RecordedRun, print_change, print_history
from publisher.demo.recorded_sources import RECORDINGS_FOLDER, RecordedSource, write_recordings
from publisher.demo.recordings import Operations, recordings
from publisher.demo.show import differences, print_counts, print_documents, sample_documents
from publisher.demo.side_by_side import print_lines, print_sources
from publisher.demo.story import NOW, PROCESSED, Story, write_story
from publisher.engine.contract import Engine
from publisher.engine.spark.options import SparkOptions
from publisher.engine.start import start_engine
from publisher.errors import InternalError, UsageError
from publisher.journal.conservation import RunReport
from publisher.journal.durable import write_report
from publisher.reports.page.build import build_report
from publisher.resources import resource
from publisher.runs.publisher_instance import PublisherInstance

DATABASE = "company.sqlite"
SNAPSHOT = "event-log.csv"
JOB = "demo.toml"
REPORT = "report.html"
DEMO_FILES = (DATABASE, SNAPSHOT, JOB)


def run_demo(console: Console, directory: Path) -> None:
    """Runs the whole demo: the first run on Spark, the comparison on the engine that suits its size.

    Raises ``InternalError`` if counts differ from the expected ones.
    """
    start = time.perf_counter()
    check_directory(directory)
    options = SparkOptions()  # the job files of the demo have no Spark settings
    with start_engine("spark", options) as engine:
        engine.warm_up()
        story = write_story()
        sources = prepare(directory, story)
        report = publish_recordings(console, directory, story, sources, engine)
    with start_engine("auto", options) as engine:
        comparison = compare_tables(console, directory, story, engine)
    seconds = time.perf_counter() - start
    console.print(f"\nAll counts match the demo's own bookkeeping ({seconds:.0f} s).")
    target, journal = Path(report.target), Path(report.journal)
    runs = [RecordedRun(source.title, journal, source.name) for source in sources]
    later = RecordedRun("comparison of tables, later", Path(comparison.journal), "tables")
    print_history(console, [*runs, later])
    print_report(console, directory, journal)
    print_next(console, directory, target, journal, story)


def publish_recordings(
    console: Console,
    directory: Path,
    story: Story,
    sources: Sequence[RecordedSource],
    engine: Engine,
) -> RunReport:
    """Publishes the recordings of all systems, and prints their documents and outcomes."""
    settings = load(directory / JOB)
    print_input(console, directory, story)
    report = publish(settings, engine)
    problems = differences({source.name: source.counts for source in sources}, report)
    if problems:
        raise InternalError("counts differ from the expected ones: " + "; ".join(problems))
    target = Path(report.target)
    print_documents(console, sample_documents(target))
    print_counts(console, story.counts(live=True))
    acts = [source.acts for source in sources]
    operations = recordings(Path(report.journal), target, settings.run.lane_count, acts)
    print_recordings(console, story.acts, sources, operations)
    console.print(f"\n{report.documents:,} documents in {_relative(target)}", soft_wrap=True)
    return report


def compare_tables(console: Console, directory: Path, story: Story, engine: Engine) -> RunReport:
    """Compares the tables with their last known state, and prints the differences."""
    reports = compare(directory, story.company, engine)
    print_comparison(console, reports)
    console.print(
        f"\nThe comparison ran on the {engine.use.name} engine ({engine.use.reason}),"
        " the run before it on Spark.",
        soft_wrap=True,
    )
    print_verification(console, directory, engine)
    return reports.second


def print_report(console: Console, directory: Path, journal: Path) -> None:
    """Writes the page of the run, and prints its path."""
    page = directory / REPORT
    write_report(page, build_report([journal], datetime.now(UTC)).page)
    console.print(
        f"\n[bold]Where every record went[/]: open {_relative(page)} in a browser.", soft_wrap=True
    )


def print_input(console: Console, directory: Path, story: Story) -> None:
    """Prints the counts of the input."""
    console.print(
        f"{directory / DATABASE}: {len(story.company.employees):,} employees, "
        f"{len(story.events):,} rows in event_log, {len(story.events) - PROCESSED:,} of them new.\n"
        f"{directory / RECORDINGS_FOLDER}: the last day of the same tables, {len(story.acts):,}"
        " transactions, as other systems recorded it. Publishing ...\n",
        soft_wrap=True,
    )


def print_recordings(
    console: Console,
    acts: Sequence[Act],
    sources: Sequence[RecordedSource],
    recorded: Sequence[Sequence[Operations]],
) -> None:
    """Prints the sources side by side.  Raises ``InternalError`` if their documents contradict."""
    print_sources(console, sources)
    users = [number for number, act in enumerate(acts) if act.row[0] == "usr"]
    print_change(console, sources, [system[users[1]] for system in recorded])
    numbers = [number for number in range(len(acts)) if number not in users]
    other_acts = [acts[number] for number in numbers]
    operations = [[system[number] for number in numbers] for system in recorded]
    print_lines(console, sources, lines(other_acts, operations))
    console.print(
        "Applied in order, the documents of all systems lead to the same values in "
        f"{agreed_objects(acts, recorded):,} objects, wherever more than one system gives a value.",
        soft_wrap=True,
    )


def check_directory(directory: Path) -> None:
    """Raises ``UsageError`` if the directory contains anything but an earlier demo."""
    foreign = not all((directory / name).is_file() for name in DEMO_FILES)
    if foreign and directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty and not from a demo: name another directory")


def prepare(directory: Path, story: Story) -> list[RecordedSource]:
    """Creates database, snapshot, job file and recordings in the directory; returns the job's sources."""
    if directory.exists() and any(directory.iterdir()):
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    write_database(directory / DATABASE, story.company, story.events)
    write_snapshot(directory / SNAPSHOT, story.events)
    shutil.copyfile(resource("conf/demo.toml"), directory / JOB)
    return write_recordings(directory / JOB, story)


def publish(settings: Settings, engine: Engine) -> RunReport:
    """Runs ``xds-publisher publish -c demo.toml``."""
    with PublisherInstance(settings, engine) as job:
        report = job.run_once(datetime.fromisoformat(NOW))
    if report is None:
        raise InternalError("there was nothing to publish")
    return report


def print_next(
    console: Console, directory: Path, target: Path, journal: Path, story: Story
) -> None:
    """Prints commands that work as they are printed."""
    program = _word(Path(sys.executable).with_name("xds-publisher"))
    explain = f"explain {_word(journal)}"
    commands = {
        "Why did this change produce no document of its own?": (
            f"explain -c {_word(directory / JOB)} {story.superseded_id}"
        ),
        "Why was this record rejected?": f"{explain} {story.rejected_id}",
        "What happened to this user?": f"{explain} idu=4,table=usr,schema=indirect",
        "Are all documents valid?": f"validate {_word(target)}/part-*.xds",
        "Replay a snapshot of the log:": (
            f"replay {_word(directory / SNAPSHOT)} --to {_word(directory / 'replayed')} "
            f"-c {_word(directory / JOB)} --format event-log --now {NOW}"
        ),
        "Which records and documents did the log have of this user?": (
            f"history {USER} {_word(journal)} --source company"
        ),
        "Where did every record go? Write the report again:": (
            f"report {_word(journal)} --to {_word(directory / REPORT)}"
        ),
        "Do consumers have what the tables have?": f"verify -c {_word(directory / COMPARISON)}",
        "What is in an extraction file?": (
            f"inspect {_word(directory / RECORDINGS_FOLDER / 'people.dat')} --format linkexpress "
            f"-c {_word(directory / JOB)} | grep -m 3 event_type"
        ),
        "How often are tables used?": (
            f"activity {_word(directory / SAMPLES)} -c {_word(directory / COMPARISON)}"
        ),
    }
    console.print("\n[bold]Next commands")
    for title, command in commands.items():
        console.print(f"  [dim]{title}[/]\n    {program} {command}", soft_wrap=True)


def _word(path: Path) -> str:
    """Writes a path as a word of a shell, relative if possible."""
    return shlex.quote(str(_relative(path)))


def _relative(path: Path) -> Path:
    """Makes a path relative if it is below the working directory."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path

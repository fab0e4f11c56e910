"""``./run demo [DIRECTORY]``: makes the company, publishes its event log, shows what came out."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click
from rich.console import Console

from publisher.demo.database import write_database, write_snapshot
from publisher.demo.show import differences, print_counts, print_documents, sample_documents
from publisher.demo.story import NOW, PROCESSED, Story, tell
from publisher.errors import InternalError, PublisherError, UsageError
from publisher.resources import resource

DATABASE = "company.sqlite"
SNAPSHOT = "event-log.csv"
JOB = "demo.toml"
MADE_BY_DEMO = (DATABASE, SNAPSHOT, JOB)


@click.command(help="Makes a small company with its event log in DIRECTORY and publishes it.")
@click.argument("directory", type=click.Path(path_type=Path), default=Path("demo-output"))
def main(directory: Path) -> None:
    """Exit code 0 only if the run gave exactly what the demo's own bookkeeping says."""
    console = Console(highlight=False)
    try:
        demo(console, directory)
    except PublisherError as error:
        Console(stderr=True).print(f"demo: {error}", highlight=False, markup=False)
        sys.exit(error.exit_code)


def demo(console: Console, directory: Path) -> None:
    """The whole tour.  Raises ``InternalError`` where the counts are not those expected."""
    start = time.perf_counter()
    story = tell()
    prepare(directory, story)
    console.print(
        f"{directory / DATABASE}: {len(story.company.employees):,} employees, "
        f"{len(story.events):,} rows in event_log, {len(story.events) - PROCESSED:,} of them new. "
        "Publishing ...\n",
        soft_wrap=True,
    )
    report = publish(directory)
    wrong = differences(story.counts(live=True), report)
    if wrong:
        raise InternalError("the run did not give what it must: " + "; ".join(wrong))
    target, journal = Path(str(report["target"])), Path(str(report["journal"]))
    print_documents(console, sample_documents(target))
    print_counts(console, story.counts(live=True))
    console.print(f"\n{report['documents']:,} documents in {_shown(target)}", soft_wrap=True)
    seconds = time.perf_counter() - start
    console.print(
        f"All counts are those that the demo's own bookkeeping expects ({seconds:.0f} s)."
    )
    print_next(console, directory, target, journal, story)


def prepare(directory: Path, story: Story) -> None:
    """A fresh directory with database, snapshot and job file.

    Raises ``UsageError`` where something else than an earlier demo is in the way.
    """
    if directory.exists() and any(directory.iterdir()):
        if not all((directory / name).is_file() for name in MADE_BY_DEMO):
            raise UsageError(
                f"{directory} is not empty and not from a demo: name another directory"
            )
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    write_database(directory / DATABASE, story.company, story.events)
    write_snapshot(directory / SNAPSHOT, story.events)
    shutil.copyfile(resource("conf/demo.toml"), directory / JOB)


def publish(directory: Path) -> dict[str, object]:
    """Publishes the event log as a user would; gives the report of the run."""
    arguments = ["publish", "-c", str(directory / JOB), "--now", NOW, "--json"]
    done = subprocess.run(  # noqa: S603  our own program
        [sys.executable, "-m", "publisher.cli", *arguments], stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise InternalError(f"xds-publisher {shlex.join(arguments)} ended with {done.returncode}")
    loaded: dict[str, object] = json.loads(done.stdout)
    return loaded


def print_next(
    console: Console, directory: Path, target: Path, journal: Path, story: Story
) -> None:
    """Commands that work as they are printed."""
    program = _shown(Path(sys.executable).with_name("xds-publisher"))
    told = f"explain {_shown(journal)}"
    commands = {
        "Why did this change give no document of its own?": f"{told} {story.superseded}",
        "What is wrong with that one?": f"{told} {story.rejected}",
        "All that happened to a user:": f"{told} idu=4,table=usr,schema=indirect",
        "Are all documents valid?": f"validate {_shown(target)}/part-*.xds",
        "The same from a snapshot of the log:": (
            f"replay {directory / SNAPSHOT} --to {directory / 'replayed'} "
            f"-c {directory / JOB} --now {NOW}"
        ),
    }
    console.print("\n[bold]What to type next")
    for title, command in commands.items():
        console.print(f"  [dim]{title}[/]\n    {program} {command}", soft_wrap=True)


def _shown(path: Path) -> Path:
    """Relative to the working directory where it is below it."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path


if __name__ == "__main__":
    main()

"""``./run release [--dry-run]``: checks a release, and leaves its files in ``dist``."""

# ruff: noqa: T201 - it speaks with whoever runs it

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import click

from publisher import __version__
from tests.release.cluster import check_cluster
from tests.release.container import check_container
from tests.release.notes import NotesError, release_notes
from tests.release.operations import check_monitoring, check_unit
from tests.release.packages import (
    ROOT,
    Packages,
    Python,
    ReleaseError,
    build,
    check_demo,
    check_everything_imports,
    check_files_only,
    compare_with_source,
    install,
    pip_install,
    pythons,
)

Result = TypeVar("Result")


@click.command(
    help="Builds the packages, installs them beside nothing else, and runs the program there."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="check only: the version needs no date, the checkout may have changes, and nothing stays",
)
def main(dry_run: bool) -> None:
    """Exit code 0 only if every check succeeded."""
    with TemporaryDirectory(prefix="release-") as name:
        try:
            packages, notes = _check(Path(name), dry_run)
        except (ReleaseError, NotesError) as error:
            print(f"release: {error}", file=sys.stderr)
            sys.exit(1)
        if dry_run:
            print(f"\n{__version__} can be released.")
        else:
            _keep(packages, notes)


def _check(work: Path, dry_run: bool) -> tuple[Packages, str]:
    notes = release_notes(
        (ROOT / "CHANGELOG.md").read_text("utf-8"), __version__, dated=not dry_run
    )
    if not dry_run:
        _check_checkout()
    target, unpacked = work / "packages", work / "unpacked"
    unpacked.mkdir()
    packages = _timed("build wheel and source distribution", lambda: build(target))
    _timed("build the wheel of the source", lambda: compare_with_source(packages, unpacked))
    operations = work / "operations"
    operations.mkdir()
    _timed("systemd unit", lambda: check_unit(operations))
    _timed("Prometheus: scrape, alert, dashboard", lambda: check_monitoring(operations))
    image = work / "image"
    image.mkdir()
    _timed("container", lambda: check_container(packages, image))
    found = pythons()
    if len(found) < 2:
        raise ReleaseError(
            f"{len(found)} supported Python(s) found: install another, so that two are tested"
        )
    programs = [_check_python(packages, python, work / python.version) for python in found]
    cluster = work / "cluster"
    cluster.mkdir()
    _timed(
        "Spark cluster: executors, a node and the program are killed",
        lambda: check_cluster(programs[0], cluster),
    )
    return packages, notes


def _check_python(packages: Packages, python: Python, work: Path) -> Path:
    """Returns the directory of the installed programs."""
    work.mkdir()
    name = f"Python {python.version}"
    programs = _timed(f"{name}: install", lambda: install(packages, python, work / "venv"))
    _timed(f"{name}: replay without extras", lambda: check_files_only(programs, work))
    requirement = f"xds-publisher[all] @ {packages.wheel.as_uri()}"
    _timed(f"{name}: install all extras", lambda: pip_install(programs, requirement, work))
    _timed(f"{name}: import every module", lambda: check_everything_imports(programs, work))
    _timed(f"{name}: demo", lambda: check_demo(programs, work))
    return programs


def _check_checkout() -> None:
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    if status.stdout:
        raise ReleaseError(f"the checkout has changes: commit them\n{status.stdout}")


def _keep(packages: Packages, notes: str) -> None:
    target = ROOT / "dist"
    target.mkdir(exist_ok=True)
    for path in (packages.wheel, packages.source):
        shutil.copyfile(path, target / path.name)
    (target / "notes.md").write_text(notes + "\n", "utf-8")
    print(f"\n{target}: {packages.wheel.name}, {packages.source.name}, notes.md")


def _timed(name: str, check: Callable[[], Result]) -> Result:
    print(name, end=" ... ", flush=True)
    begun = time.monotonic()
    result = check()
    print(f"{time.monotonic() - begun:.0f} s")
    return result


if __name__ == "__main__":
    main()

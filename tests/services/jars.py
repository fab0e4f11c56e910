"""Java programs for tests and benchmarks: Maven copies their jars, once, into ``.cache/jars``."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.services.servers import MissingServerError, find

KAFKA = Path(__file__).with_name("pom.xml")
CACHE = Path(__file__).parents[2] / ".cache" / "jars"


def jars(pom: Path = KAFKA) -> Path:
    """The directory of all jars that a pom wants.  Raises ``MissingServerError``.

    One process at a time has Maven fetch them, under another name than the one they are used by.
    """
    place = CACHE / hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    if place.is_dir():
        return place
    maven = find("mvn")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            _fetch(maven, pom, CACHE / "fetched.tmp", place)
    return place


def _fetch(maven: str, pom: Path, temporary: Path, place: Path) -> None:
    shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command = [maven, "-B", "-q", "-f", str(pom), *goal, f"-DoutputDirectory={temporary}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingServerError(f"Maven cannot get {pom}: {(done.stdout + done.stderr)[-1000:]}")
    temporary.rename(place)


def java(main: str, *words: str, options: Sequence[str] = (), pom: Path = KAFKA) -> list[str]:
    """The command that runs a class of a pom's jars.  Raises ``MissingServerError``."""
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else find("java", "/usr/lib/jvm/*/bin")
    return [program, *options, "-cp", f"{jars(pom)}/*", main, *words]

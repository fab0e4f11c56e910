"""Java programs for tests and benchmarks: Maven copies their jars, once, into ``.cache/jars``."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.services.servers import MissingServerError, find

KAFKA = Path(__file__).with_name("pom.xml")
CACHE = Path(__file__).parents[2] / ".cache" / "jars"


def jars(pom: Path = KAFKA) -> Path:
    """The directory of all jars that a pom wants.  Raises ``MissingServerError``."""
    return make_once(hashlib.sha256(pom.read_bytes()).hexdigest()[:16], partial(_fetch, pom))


def make_once(name: str, make: Callable[[Path], object]) -> Path:
    """A file or directory of the cache.

    One process at a time makes it, under another name than the one it is used by.  To make it, another
    may be made.
    """
    place, temporary = CACHE / name, CACHE / f"{name}.tmp"
    if place.exists():
        return place
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            make(temporary)
            temporary.rename(place)
    return place


def _fetch(pom: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)  # of a run that was killed
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command = [find("mvn"), "-B", "-q", "-f", str(pom), *goal, f"-DoutputDirectory={target}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingServerError(f"Maven cannot get {pom}: {(done.stdout + done.stderr)[-1000:]}")


def java_program() -> Path:
    """The Java of ``JAVA_HOME``, else the one that is installed.  Raises ``MissingServerError``."""
    home = os.environ.get("JAVA_HOME")
    return Path(home, "bin", "java") if home else Path(find("java", "/usr/lib/jvm/*/bin"))


def java(main: str, *words: str, options: Sequence[str] = (), pom: Path = KAFKA) -> list[str]:
    """The command that runs a class of a pom's jars.  Raises ``MissingServerError``."""
    return [str(java_program()), *options, "-cp", f"{jars(pom)}/*", main, *words]

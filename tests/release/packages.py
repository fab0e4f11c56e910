"""The wheel, the source distribution, and their installation beside nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

LOG = (
    "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,"
    "old_value,new_value\n1,idu=1,N,1,2026-01-01 00:00:00,x,usr,fname,,Jack\n"
)


class ReleaseError(Exception):
    """A check of the release failed; the message says which and shows its output."""


@dataclass(frozen=True, slots=True)
class Packages:
    """What a release consists of."""

    wheel: Path
    source: Path


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter in which the wheel is installed."""

    version: str
    """Such as ``3.12``."""
    path: Path


def run(
    command: Sequence[str | Path], directory: Path, environment: Mapping[str, str] | None = None
) -> str:
    """Runs a command in a directory and returns its output.

    Variables that would lead Python to this checkout are removed.

    Raises:
        ReleaseError: The command failed.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") and name != "VIRTUAL_ENV"
    }
    result = subprocess.run(
        [str(word) for word in command],
        cwd=directory,
        env={**kept, **(environment or {})},
        check=False,
        capture_output=True,
        text=True,
    )
    if result.returncode:
        words = " ".join(str(word) for word in command)
        raise ReleaseError(
            f"{words}: exit code {result.returncode}\n{result.stdout}{result.stderr}"
        )
    return result.stdout


def build(target: Path) -> Packages:
    """Builds both packages of this checkout in ``target``."""
    run([sys.executable, "-m", "hatchling", "build", "--directory", target], ROOT)
    (wheel,), (source,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return Packages(wheel, source)


def compare_with_source(packages: Packages, directory: Path) -> None:
    """Builds a wheel from the source distribution; it must hold the same files.

    Raises:
        ReleaseError: A file is missing or differs.
    """
    shutil.unpack_archive(packages.source, directory)
    (unpacked,) = directory.iterdir()
    run([sys.executable, "-m", "hatchling", "build", "--target", "wheel"], unpacked)
    (wheel,) = (unpacked / "dist").glob("*.whl")
    of_checkout, of_source = _checksums(packages.wheel), _checksums(wheel)
    if different := sorted(
        name
        for name in of_checkout.keys() | of_source.keys()
        if of_checkout.get(name) != of_source.get(name)
    ):
        raise ReleaseError(
            f"the wheel of {packages.source.name} has other files: {', '.join(different)}"
        )


def _checksums(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.CRC for info in archive.infolist()}


def pythons() -> list[Python]:
    """Returns the interpreters of this machine that the program supports, one for each minor version."""
    found: dict[str, Python] = {}
    for path in _candidates():
        asked = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
        result = subprocess.run([path, "-c", asked], check=False, capture_output=True, text=True)
        version = result.stdout.strip()
        if result.returncode == 0 and version in supported_versions():
            found.setdefault(version, Python(version, path))
    return sorted(found.values(), key=lambda python: python.version)


def _candidates() -> Iterator[Path]:
    for version in supported_versions():
        if path := shutil.which(f"python{version}"):
            yield Path(path)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from sorted(versions.glob("3.*/bin/python3"))


def supported_versions() -> list[str]:
    """Returns the minor versions that the classifiers of the package name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = (name.rpartition(" :: ") for name in project["classifiers"])
    return [
        version
        for topic, _, version in names
        if topic == "Programming Language :: Python" and "." in version
    ]


def install(packages: Packages, python: Python, directory: Path) -> Path:
    """Installs the wheel in a new environment; returns the directory of its programs."""
    run([python.path, "-m", "venv", directory], directory.parent)
    programs = directory / "bin"
    pip_install(programs, str(packages.wheel), directory)
    return programs


def pip_install(programs: Path, requirement: str, directory: Path) -> None:
    """Installs a requirement in the environment of the programs."""
    pip = (programs / "pip", "--disable-pip-version-check")
    run([*pip, "install", "--quiet", requirement], directory)


def check_files_only(programs: Path, directory: Path) -> None:
    """Replays a file without extras; a missing extra is named.

    Raises:
        ReleaseError: A command failed, or says something else than expected.
    """
    program = programs / "xds-publisher"
    (directory / "log.csv").write_text(LOG, "utf-8")
    shown = run([program, "replay", "log.csv", "--to", "out"], directory)
    _expect("1 read = 1 published", shown)
    run([program, "validate", "out/part-00000.xds"], directory)
    try:
        run([program, "replay", "log.csv", "--to", "kafka://localhost:9092/xds"], directory)
    except ReleaseError as error:
        _expect("install xds-publisher[kafka]", str(error))
    else:
        raise ReleaseError("a replay to Kafka succeeded without the extra kafka")


def check_demo(programs: Path, directory: Path) -> None:
    """Runs the demo.

    Raises:
        ReleaseError: It failed.
    """
    shown = run([programs / "xds-publisher", "demo", "company"], directory)
    _expect("All equal", shown)


def check_everything_imports(programs: Path, directory: Path) -> None:
    """Imports every module of the program with all extras installed."""
    run([programs / "python", "-W", "error", "-c", _IMPORT_ALL], directory)


_IMPORT_ALL = """
import importlib, pkgutil, sysconfig, publisher
assert publisher.__file__.startswith(sysconfig.get_path("purelib")), publisher.__file__
for module in pkgutil.walk_packages(publisher.__path__, "publisher."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def _expect(text: str, shown: str) -> None:
    if text not in shown:
        raise ReleaseError(f"{text!r} is missing from the output:\n{shown}")

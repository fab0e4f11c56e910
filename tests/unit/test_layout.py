"""The shape of the program: which way imports go, and how long its parts are."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from publisher.formats.registry import FORMATS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "publisher" / "cli.py"
"""Only spark-submit runs it; imports find the package of that name."""
MODULES = sorted({*(ROOT / "publisher").rglob("*.py")} - {SCRIPT})

PACKAGES = (
    *("cli", "demo", "dataframes", "reports", "runs", "config", "verify", "engine"),
    *("tables", "activity", "acknowledge"),
    *("formats", "triggers", "database", "planning", "dispatch", "observing", "ledger"),
    *("consumer", "xds", "masking", "model", "console", "resources"),
    *("redaction", "extras", "stop_request", "errors", "no_pandas"),
)
"""From the command line down to the errors: each imports only from those after it."""

WORKERS = frozenset(PACKAGES[PACKAGES.index("verify") :])
"""Packages that tasks on other machines load."""

WITHOUT_FORMATS = ("reports", "runs", "engine")
"""Packages that know formats only by the registry, the descriptor and the contract of sources."""

FORMAT_PACKAGES = {
    path.parent.name for path in (ROOT / "publisher" / "formats").glob("*/format.py")
}


def part_of(module: str) -> str:
    """``xds`` for ``publisher.xds.document``."""
    return [*module.split("."), ""][1]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def imports_of(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_imported_by(path: Path) -> set[str]:
    """Packages of the program that a module imports, but for its own."""
    parts = {part_of(name) for name in imports_of(path) if name.split(".")[0] == "publisher"}
    own = part_of(name_of(path)) if path.is_relative_to(ROOT) else ""
    return parts - {own, "", "__version__"}


def upward_imports(path: Path, package: str) -> set[str]:
    """Packages that a module of ``package`` imports although they stand before it."""
    allowed = PACKAGES[PACKAGES.index(package) + 1 :]
    return parts_imported_by(path) - set(allowed)


def test_every_package_has_its_place() -> None:
    packages = {part_of(name_of(path)) for path in MODULES} - {""}
    assert packages == set(PACKAGES)


def test_imports_go_downwards() -> None:
    packages = {path: part_of(name_of(path)) for path in MODULES}
    upward = {
        name_of(path): upward_imports(path, package)
        for path, package in packages.items()
        if package
    }
    assert not {name: parts for name, parts in upward.items() if parts}


@pytest.mark.parametrize(
    "line",
    [
        "from publisher.runs.run import anything",
        "import publisher.cli.main",
        "def late() -> None:\n    from publisher import reports",
    ],
)
def test_an_upward_import_is_seen(tmp_path: Path, line: str) -> None:
    path = ROOT / "publisher" / "planning" / "planted.py"
    planted = tmp_path / "planted.py"
    planted.write_text(line)
    assert upward_imports(planted, part_of(name_of(path)))


def formats_imported_by(path: Path) -> set[str]:
    """Formats of which a module imports something directly."""
    names = [name.split(".") for name in imports_of(path)]
    packages = {parts[2] for parts in names if parts[:2] == ["publisher", "formats"] and parts[2:]}
    return packages & FORMAT_PACKAGES


def test_each_registered_format_is_a_package() -> None:
    formats = {format_.options.__module__.split(".")[2] for format_ in FORMATS.values()}
    assert formats == FORMAT_PACKAGES != set()


def test_runs_know_formats_only_by_their_contract() -> None:
    general = [path for path in MODULES if part_of(name_of(path)) in WITHOUT_FORMATS]
    assert not [name_of(path) for path in general if formats_imported_by(path)]


@pytest.mark.parametrize(
    "line",
    [
        "from publisher.formats.triggerless.source import Triggerless",
        "import publisher.formats.event_log.options",
        "def late() -> None:\n    from publisher.formats import linkexpress",
    ],
)
def test_an_import_of_a_format_is_seen(tmp_path: Path, line: str) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(line)
    assert formats_imported_by(planted)


def test_pyspark_is_imported_only_by_the_spark_engine_and_the_api_of_data_frames() -> None:
    users = {
        name_of(path)
        for path in MODULES
        if {name.split(".")[0] for name in imports_of(path)} & {"pyspark", "py4j"}
    }
    assert not {
        user
        for user in users
        if not user.startswith(("publisher.engine.spark.", "publisher.dataframes."))
    }


def test_engines_know_nothing_of_what_tasks_mean() -> None:
    engine = [path for path in MODULES if part_of(name_of(path)) == "engine"]
    parts = {part for path in engine for part in parts_imported_by(path)}
    assert parts <= {"model", "console", "redaction", "errors", "no_pandas"}


def test_the_consumer_imports_little_of_the_program() -> None:
    consumer = [path for path in MODULES if part_of(name_of(path)) == "consumer"]
    names = {name for path in consumer for name in imports_of(path)}
    own = {name for name in names if name.startswith("publisher.")}
    outside = {".".join(name.split(".")[:3]) for name in own} - {
        ".".join(name_of(path).split(".")[:3]) for path in consumer
    }
    assert outside == {
        "publisher.errors.PublisherError",
        "publisher.xds.framing",
        "publisher.xds.json_form",
    }


def test_workers_need_no_pydantic() -> None:
    users = {
        name_of(path)
        for path in MODULES
        if any(name.split(".")[0] == "pydantic" for name in imports_of(path))
    }
    assert not {user for user in users if part_of(user) in WORKERS}


TASKS = ("plan_lane", "source_tasks", "key_groups", "lane_sending")
"""Modules of runs that tasks on other machines load."""


def test_tasks_of_runs_load_no_settings() -> None:
    names = ", ".join(f"publisher.runs.{name}" for name in TASKS)
    script = f"import sys, {names}; print({{'pydantic', 'publisher.config'}} & {{*sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "set()\n"


def lines_of(part: str) -> int:
    """Lines of Python in a package, or in a module that stands by itself."""
    return sum(
        len(path.read_text("utf-8").splitlines())
        for path in MODULES
        if part_of(name_of(path)) == part
    )


@pytest.mark.parametrize("package", sorted({part_of(name_of(path)) for path in MODULES} - {""}))
def test_packages_keep_their_budgets(package: str) -> None:
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["budgets"]
    budget = budgets.get(package, budgets["modules"])
    assert lines_of(package) <= budget, (
        f"{package} has {lines_of(package)} lines: look for the idea that is missing. A larger budget"
        " needs a line in CHANGELOG.md that says what left for it"
    )


def lock() -> dict[str, str]:
    """The locked version of each package."""
    lines = (ROOT / ".requirements.txt").read_text().splitlines()
    versions = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in versions.items()}


def test_lock_fits_the_ranges_and_names_no_place_to_download_from() -> None:
    locked = lock()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    groups = project["build-system"]["requires"], project["project"]["dependencies"]
    for text in chain(*groups, *extras.values()):
        requirement = Requirement(text)
        if requirement.name == project["project"]["name"]:
            assert requirement.extras <= extras.keys()
        else:
            assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), text
    assert "://" not in (ROOT / ".requirements.txt").read_text()


def test_locked_packages_run_on_the_oldest_python() -> None:
    """Debian 12 has Python 3.11.2, and some packages want a later 3.11 than the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    wanted = {name: metadata(name)["Requires-Python"] or "" for name in lock()}
    refused = {name for name, text in wanted.items() if oldest not in SpecifierSet(text)}
    assert not refused

"""The shape of the program: which way imports go, and how long its parts are."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "publisher").rglob("*.py"))

FOUNDATION = frozenset(
    {
        *("change", "errors", "catalogue", "keys", "lanes", "redaction", "resources", "documents"),
        "sorted_ids",
    }
)
"""Known to all; they know only each other."""

KNOWS: dict[str, frozenset[str]] = {
    **{part: frozenset() for part in FOUNDATION},
    **{part: frozenset() for part in ("filters", "packing", "polls", "precedence", "query_back")},
    **{part: frozenset() for part in ("held_back", "journal", "records", "xds")},
    "database": frozenset({"query_back"}),
    "sources": frozenset({"database"}),
    "renderer": frozenset({"filters", "polls", "query_back", "xds"}),
    "plan": frozenset(
        {"filters", "held_back", "polls", "precedence", "query_back", "renderer", "xds"}
    ),
    "bulk": frozenset({"filters", "polls", "query_back", "records", "renderer", "xds"}),
    "dispatch": frozenset({"journal"}),
    "activity": frozenset({"sources"}),
    "acknowledge": frozenset({"database", "dispatch", "explain", "journal", "sources", "xds"}),
}
"""What each part may import besides the foundation."""

COMMANDS = frozenset({"cli", "commands", "demo", "output"})

NOT_KNOWN = {
    "tasks": COMMANDS | {"spark", "job", "settings", "job_file"},
    "spark": COMMANDS | {"job", "settings", "job_file"},
    "settings": COMMANDS | {"job"},
    "cli": frozenset({"demo"}),
    "commands": frozenset({"cli", "demo"}),
    "demo": frozenset(),
    "observing": frozenset({"cli", "commands", "demo", "follow", "polled", "publishing"}),
    "output": frozenset({"cli", "demo"}),
}
"""Parts that join the others may import all but these; those not named, all but the commands."""

LONG_MODULES: dict[str, str] = {}
"""Modules beyond 400 lines, and the reason."""

LONG_FUNCTIONS: dict[str, str] = {}
"""Functions beyond 40 lines, as module:function, and the reason."""


def part_of(module: str) -> str:
    """``xds`` for ``publisher.xds.document``."""
    return [*module.split("."), ""][1]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_parts(path: Path) -> set[str]:
    found = {part_of(name) for name in imported(path) if name.split(".")[0] == "publisher"}
    return found - {part_of(name_of(path)), "", "__version__"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    part = part_of(name_of(path))
    if part in KNOWS:
        assert imported_parts(path) <= KNOWS[part] | FOUNDATION
    else:
        assert not imported_parts(path) & NOT_KNOWN.get(part, COMMANDS)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_pyspark_is_imported_only_by_the_spark_package(path: Path) -> None:
    foreign = {name.split(".")[0] for name in imported(path)} & {"pyspark", "py4j"}
    assert not foreign or part_of(name_of(path)) == "spark"


def test_workers_need_no_pydantic() -> None:
    users = {
        name_of(path)
        for path in MODULES
        if any(name.split(".")[0] == "pydantic" for name in imported(path))
    }
    assert not {
        user for user in users if part_of(user) in KNOWS or part_of(user) in {"tasks", "spark"}
    }


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= 400 or name_of(path) in LONG_MODULES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_are_short(path: Path) -> None:
    long = {
        f"{name_of(path)}:{node.name}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or 0) - node.lineno + 1 > 40
    }
    assert long <= LONG_FUNCTIONS.keys()


def test_every_exception_to_the_lengths_is_still_needed() -> None:
    names = {name_of(path) for path in MODULES}
    assert {entry.split(":")[0] for entry in (*LONG_MODULES, *LONG_FUNCTIONS)} <= names


def pins(lines: Iterator[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        name, _, pinned = line.partition("==")
        assert pinned, f"{line}: not pinned exactly"
        found[name.partition("[")[0].lower().replace("_", "-")] = pinned
    return found


def test_pins_agree_and_name_no_place_to_download_from() -> None:
    lock = (ROOT / ".requirements.txt").read_text()
    everything = pins(line for line in lock.splitlines() if line and not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = pins(
        iter(
            [
                *project["build-system"]["requires"],
                *project["project"]["dependencies"],
                *project["project"]["optional-dependencies"]["dev"],
            ]
        )
    )
    assert wanted.items() <= everything.items()
    assert "://" not in lock

"""Files for the forge in ``.github``, and hooks for commits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from publisher.formats.registry import FORMATS

ROOT = Path(__file__).parents[2]
FORGE = ROOT / ".github"


def test_form_of_defects_names_all_formats() -> None:
    form = (FORGE / "ISSUE_TEMPLATE" / "defect.yml").read_text("utf-8")
    options = re.search(r"label: Source format\n +options: \[(.*)\]", form)
    assert options
    assert set(options[1].split(", ")) == {*FORMATS, "none of them"}


def test_workflow_runs_tasks_of_the_script() -> None:
    workflow = (FORGE / "workflows" / "tests.yml").read_text("utf-8")
    tasks = re.findall(r"- run: \./run (\w+)", workflow)
    assert tasks == ["setup", "check", "test"]
    script = (ROOT / "run").read_text("utf-8")
    assert all(f"#   ./run {task} " in script for task in tasks)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_pages_lead_to_files(name: str) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (FORGE / name).read_text("utf-8"))
    assert links
    assert all((FORGE / link).is_file() for link in links)


def test_hooks_run_tools_of_the_environment() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    tools = re.findall(r"entry: (\S+)", hooks)
    assert tools
    assert all(tool.startswith(".venv/bin/") for tool in tools)

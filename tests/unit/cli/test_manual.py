"""Manual pages say what --help says, and groff formats them without warnings."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli

NAMES = ["xds-publisher", *(f"xds-publisher-{name}" for name in sorted(cli.commands))]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    directory = tmp_path / "share" / "man1"
    result = CliRunner().invoke(cli, ["manual", str(directory)])
    assert result.output == f"{directory}: {len(NAMES)} pages\n"
    return directory


def formatted(page: Path) -> str:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=2000n", "-rHY=0", str(page)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return " ".join(done.stdout.split())


def test_the_program_and_each_command_have_a_page(pages: Path) -> None:
    assert sorted(page.stem for page in pages.iterdir()) == sorted(NAMES)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_pages_name_every_option_and_example(pages: Path) -> None:
    for name, command in cli.commands.items():
        text = formatted(pages / f"xds-publisher-{name}.1")
        assert command.get_short_help_str(1_000) in text
        for option in command.params:
            assert all(opt in text for opt in option.opts if opt.startswith("-"))
        for example in getattr(command, "examples", ()):
            assert example in text
    program = formatted(pages / "xds-publisher.1")
    assert all(f"{name}(1)" in program for name in NAMES[1:])


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_formatters_find_no_error(pages: Path) -> None:
    groff = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", *pages.iterdir()], capture_output=True, check=True
    )
    assert groff.stderr == b""
    if shutil.which("mandoc") is not None:
        subprocess.run(["mandoc", "-T", "lint", "-W", "error", *pages.iterdir()], check=True)

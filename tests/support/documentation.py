"""Pages of the documentation: their text, blocks and commands, read for tests."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from publisher.cli.main import cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = [DOCS / "reference" / name for name in ("cli.md", "dataframes.md", "settings.md")]
PROGRAM = "xds-publisher "
_DURATION = re.compile(r"\b\d+\.\d\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")


def written_pages() -> list[Path]:
    """Lists the pages that people write, the README included."""
    pages = [path for path in sorted(DOCS.rglob("*.md")) if path not in GENERATED]
    return [ROOT / "README.md", *pages]


def text_of(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def blocks(text: str, language: str = "") -> list[str]:
    """Returns the fenced blocks of one language."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in fenced if name == language]


def section(text: str, heading: str) -> str:
    """Returns the text below a heading of the second level."""
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@dataclass(frozen=True)
class ShownCommand:
    """A command on a page, and the lines that it prints there."""

    line: str
    printed: tuple[str, ...]


def shown_commands(text: str) -> Iterator[ShownCommand]:
    """Yields the commands of a page that begin with ``$`` in blocks without a language."""
    for block in blocks(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *printed = part.splitlines()
            yield ShownCommand(line, tuple(line for line in printed if line))


def run(line: str) -> str:
    """Runs a command of a page in the working directory and returns what it prints."""
    if line.startswith("sqlite3 "):
        return _run_sqlite(line)
    line = line.removeprefix(".venv/bin/")
    assert line.startswith(PROGRAM), line
    arguments = line.removeprefix(PROGRAM).removesuffix(" | cat").split()
    names = [name for word in arguments for name in _expand(word)]
    return CliRunner().invoke(cli, names).output


def _expand(word: str) -> list[str]:
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def _run_sqlite(line: str) -> str:
    printed = ""
    with closing(sqlite3.connect(line.split()[1])) as database:
        for statement in line.partition('"')[2].rstrip('"').split(";"):
            for row in database.execute(statement):
                printed += "|".join("" if cell is None else str(cell) for cell in row) + "\n"
        database.commit()
    return printed


def comparable(text: str) -> list[str]:
    """Returns the lines of an output with directories, times and durations masked."""
    lines = text.replace(str(Path.cwd()), "…").splitlines()
    return [_mask(line) for line in lines if line]


def _mask(line: str) -> str:
    if line.startswith("  seconds "):
        return _DURATION.sub("0.0", line)
    return _TIME.sub("TIME", line) if line.startswith("last run ") else line


def agrees(shown: str, printed: str) -> bool:
    """Compares a line of a page with a printed one; ``…`` on the page matches any text."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), printed) is not None


def shown_documents(page: str) -> list[str]:
    """Returns the documents of a page with operations, each on one line as a part file has it."""
    (envelope,) = blocks(text_of("reference/documents.md"), "xml")
    (operations,) = blocks(page, "xml")
    before, after = re.split("<add .*</add>", _join(envelope))
    matches = re.finditer(r"<(add|modify|delete) .*?</\1>", _join(operations))
    return [f"{before}{match[0]}{after}" for match in matches]


def _join(xml: str) -> str:
    return "".join(line.strip() for line in xml.splitlines())

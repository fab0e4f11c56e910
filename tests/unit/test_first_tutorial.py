"""The first tutorials print what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documentation import (
    ROOT,
    agrees,
    blocks,
    comparable,
    run,
    shown_commands,
    shown_documents,
    text_of,
)

README = (ROOT / "README.md").read_text("utf-8")
TUTORIAL = text_of("tutorials/first-documents.md")


def test_the_readme_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (here_document,) = (block for block in blocks(README, "sh") if block.startswith("cat "))
    Path("log.csv").write_text(here_document.split("'EOF'\n")[1].removesuffix("EOF\n"), "utf-8")
    commands = list(shown_commands(README))
    assert len(commands) == 3
    for command in commands:
        printed = comparable(run(command.line))
        shown = comparable("\n".join(command.printed))
        assert len(shown) == len(printed), printed
        for pair in zip(shown, printed, strict=True):
            assert agrees(*pair)
    written = [path.read_text("utf-8") for path in sorted(Path("out").glob("part-*.xds"))]
    documents = shown_documents(README)
    assert "".join(written).splitlines() == documents
    (first,) = blocks(text_of("index.md"), "xml")
    assert "".join(line.strip() for line in first.splitlines()) in documents


def test_the_first_tutorial_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(blocks(TUTORIAL, "csv")[0], "utf-8")
    Path("people.toml").write_text(blocks(TUTORIAL, "toml")[0], "utf-8")
    commands = [command for command in shown_commands(TUTORIAL) if "mistake" not in command.line]
    assert len(commands) == 8
    for command in commands:
        printed = comparable(run(command.line))
        shown = comparable("\n".join(command.printed))
        if " inspect " in command.line:
            assert set(shown) <= set(printed)
        else:
            assert len(shown) == len(printed), printed
            for pair in zip(shown, printed, strict=True):
                assert agrees(*pair)
    assert Path("out/part-00000.xds").read_text("utf-8").splitlines() == shown_documents(TUTORIAL)


def test_your_own_database_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = list(shown_commands(text_of("tutorials/your-database.md")))
    assert len(commands) == 11
    for command in commands:
        printed = comparable(run(command.line))
        shown = comparable("\n".join(command.printed))
        assert len(shown) == len(printed), printed
        for pair in zip(shown, printed, strict=True):
            assert agrees(*pair)

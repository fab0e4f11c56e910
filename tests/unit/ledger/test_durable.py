"""Folders are removed although a replaced instance still writes into them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from publisher.ledger import durable
from publisher.ledger.durable import remove_folder


class Writer:
    """Removes folders like ``os.rmdir``; before the first removals another process writes a file there."""

    def __init__(self, files: int) -> None:
        self._files = files
        self._remove = os.rmdir

    def rmdir(self, name: str, *, dir_fd: int | None = None) -> None:
        if self._files:
            self._files -= 1
            opened = os.open(name, os.O_RDONLY, dir_fd=dir_fd)
            os.close(os.open("late", os.O_CREAT | os.O_WRONLY, dir_fd=opened))
            os.close(opened)
        self._remove(name, dir_fd=dir_fd)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(durable, "_SECONDS_BETWEEN_REMOVALS", 0.001)
    folder = tmp_path / "hr-000001"
    (folder / "staging").mkdir(parents=True)
    return folder


def test_a_folder_that_is_still_written_is_removed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "rmdir", Writer(files=3).rmdir)
    remove_folder(run)
    assert not run.exists()


def test_an_endless_writer_is_an_error(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "rmdir", Writer(files=10_000).rmdir)
    with pytest.raises(OSError, match="not empty"):
        remove_folder(run)


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        remove_folder(tmp_path / "missing")

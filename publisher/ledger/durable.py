"""Files that survive crashes, and that only their owner can read, because they hold personal data."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from publisher.errors import FatalError, UsageError

_SYNCED_AT_ONCE = 16
_REMOVALS = 50
_SECONDS_BETWEEN_REMOVALS = 0.1

T = TypeVar("T")


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_SYNCED_AT_ONCE, thread_name_prefix="sync")


# threads do not survive a fork
os.register_at_fork(after_in_child=_threads.cache_clear)


def sync(paths: Iterable[Path]) -> None:
    """Makes the content of files, and the entries of folders, durable.

    All are synced at the same time, which file systems combine: six files take as long as one.
    """
    each = list(dict.fromkeys(paths))
    if len(each) == 1:
        sync_folder(each[0])
    else:
        list(_threads().map(sync_folder, each))


def sync_folder(path: Path) -> None:
    """Makes renames in a folder, or the content of a file, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_of(path: Path) -> str:
    """SHA-256 of the content of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def link_or_copy(old: Path | str, new: Path | str) -> None:
    """Gives a file that is never changed a second name, or copies it if the file system has no links."""
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)


def remove_folder(folder: Path) -> None:
    """Removes a folder into which an instance that was replaced may still write, until it notices that.

    Raises:
        OSError: The folder cannot be removed, or something is written into it for seconds.
    """
    for attempt in range(_REMOVALS):
        try:
            shutil.rmtree(folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _REMOVALS - 1:
                raise
            time.sleep(_SECONDS_BETWEEN_REMOVALS)
        else:
            return


@contextmanager
def create_private(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Creates a file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file


def make_private(path: Path) -> None:
    """Makes a finished file readable by its owner only, and durable."""
    path.chmod(0o600)
    sync_folder(path)


def write_durably(path: Path, text: str) -> None:
    """Replaces a file with a synced file that only its owner can read."""
    temporary = path.with_name(path.name + ".new")
    _write(temporary, text)
    sync_folder(temporary)
    temporary.replace(path)
    sync_folder(path.parent)


def check_report_target(path: Path) -> None:
    """Finds out whether a report can be written, before the work that it takes.

    Raises:
        UsageError: The directory is missing or not writable, or the path is a directory.
    """
    folder = path.absolute().parent
    if path.is_dir():
        raise UsageError(
            f"{path} is a directory: name a file in it, such as {path / 'report.html'}"
        )
    if not folder.is_dir():
        raise UsageError(f"{path}: there is no directory {folder}: create it, or name another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{path}: {folder} is not writable: change its permissions, or name another file"
        )


def write_report(path: Path, text: str) -> None:
    """Replaces a file that nothing depends on; a loss of power may leave it empty until it is synced."""
    temporary = path.with_name(path.name + ".new")
    _write(temporary, text)
    temporary.replace(path)


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def read_versioned_file(
    path: Path,
    version: int,
    decode: Callable[[dict[str, Any]], T],
    remedy: str,
    *,
    field: str = "format",
) -> T | None:
    """Reads a JSON file whose ``field`` holds its format version; ``None`` if there is no such file.

    ``remedy`` says what to do if the file cannot be restored.

    Raises:
        FatalError: The file is damaged, or another version of the program wrote it.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError) and not path.exists():
            return None
        raise FatalError(f"{path} is damaged ({error}): restore it, or {remedy}") from error
    return decode_versioned_text(text, path, version, decode, remedy, field=field)


def decode_versioned_text(
    text: str,
    path: Path | str,
    version: int,
    decode: Callable[[dict[str, Any]], T],
    remedy: str,
    *,
    field: str = "format",
) -> T:
    """Decodes the text of a file like ``read_versioned_file``; ``path`` names it in messages.

    Raises:
        FatalError: The text is damaged, or another version of the program wrote it.
    """
    try:
        content = json.loads(text)
        stored = content[field]
        if stored == version:
            return decode(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FatalError(f"{path} is damaged: restore it, or {remedy}") from error
    program = content.get("program")
    writer = f"{program}, which wrote it," if program else "the version that wrote it"
    raise FatalError(
        f"{path} has {field} {stored}, this program reads {field} {version}: use {writer} "
        f"or {remedy}"
    )

"""Which files a job has published: what is kept of sources that have no status column."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from publisher.errors import FatalError
from publisher.journal.durable import read_versioned, write_durably
from publisher.journal.file_entries import FileEntry
from publisher.journal.manifest import Manifest

FORMAT = 2
Copies = Literal["refuse", "publish"]


@dataclass(frozen=True, slots=True)
class FileRules:
    """How the files of a source are told apart."""

    copies: Copies = "refuse"
    """Whether a file with the content of another one is published, too."""
    settings: str = ""
    """Digest of the settings that its records are read with."""
    is_bare: Callable[[Path], bool] = lambda _: False
    """Whether a file holds no record, so that copies of it are no copies of records."""


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Published files as they were then, by source and resolved path."""

    entries: Mapping[tuple[str, str], FileEntry] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> PublishedFiles:
        """Reads the list of a job; an empty one if there is no such file.

        Raises:
            FatalError: It is damaged, or another version of the program wrote it.
        """

        def decode(content: dict[str, Any]) -> PublishedFiles:
            return cls(dict(_entries(content["files"])))

        remedy = "remove it, which publishes all files again that are still there"
        return read_versioned(path, FORMAT, decode, remedy) or cls()

    def with_runs(self, manifests: Iterable[Manifest]) -> PublishedFiles:
        """With the files of runs."""
        found = dict(self.entries)
        for manifest in manifests:
            for source in manifest.sources:
                found |= {(source.name, entry.path): entry for entry in source.files}
        return PublishedFiles(found)

    def write(self, path: Path) -> None:
        """Writes it durably."""
        files = [{"source": source} | asdict(entry) for (source, _), entry in self.entries.items()]
        write_durably(path, json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n")

    def of(self, source: str) -> list[FileEntry]:
        """The files of a source."""
        return [entry for (name, _), entry in self.entries.items() if name == source]

    def new_of(
        self, source: str, paths: Sequence[Path], rules: FileRules | None = None
    ) -> list[Path]:
        """The files of a source that were not published, or were empty then.

        A file of which all records were rejected is new once it or the settings have changed.

        Raises:
            FatalError: A published file has other content now, or a new one is a copy.
        """
        rules = rules or FileRules()
        new: dict[Path, FileEntry] = {}
        for path in paths:
            now = FileEntry.of(path)
            if self._is_new(source, path, now, rules) and now not in new.values():
                new[path] = now
        if rules.copies == "refuse":
            self._refuse_copies(source, new, rules)
        return list(new)

    def _is_new(self, source: str, path: Path, now: FileEntry, rules: FileRules) -> bool:
        published = self.entries.get((source, now.path))
        if published is None or (now.bytes and not published.bytes):
            return True
        same = published.is_as_published(now)
        if published.refused is not None:
            return not same or published.refused != rules.settings
        if same:
            return False
        then = f"had {published.bytes:,} bytes when it was published, and has {now.bytes:,} now"
        if published.bytes == now.bytes:
            then = "has other content than when it was published, in as many bytes"
        raise FatalError(
            f"{path} {then}: put what is new into a file of its own, and restore this one"
        )

    def _refuse_copies(self, source: str, new: Mapping[Path, FileEntry], rules: FileRules) -> None:
        """Looks into files of the same size only."""
        by_size: dict[int, list[FileEntry]] = {}
        for entry in self.of(source):
            if entry.bytes and entry.effect and entry.refused is None:
                by_size.setdefault(entry.bytes, []).append(entry)
        for path, now in new.items():
            others = [one for one in by_size.get(now.bytes, ()) if one.path != now.path]
            for other in others:
                known = (source, other.path) in self.entries
                if _digest_of(now) == _digest_of(other) and (known or not rules.is_bare(path)):
                    raise _copied(path, other)
            if now.bytes:
                by_size.setdefault(now.bytes, []).append(now)


def _digest_of(entry: FileEntry) -> str | None:
    return entry.digest or entry.with_digest().digest


def _copied(path: Path, other: FileEntry) -> FatalError:
    return FatalError(
        f"{path} has the same content as {other.path}, and its records would be published twice: "
        'remove the copy; or set copies = "publish" for the source where equal files are changes of '
        "their own"
    )


def _entries(listed: Sequence[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], FileEntry]]:
    for entry in listed:
        source = entry.pop("source")
        yield (source, entry["path"]), FileEntry(**entry)

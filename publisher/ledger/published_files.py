"""The files that a job has published: the memory of sources without a status column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from publisher.errors import FatalError
from publisher.ledger.file_entries import FileEntry
from publisher.ledger.manifest import Manifest

Copies = Literal["refuse", "publish"]


@dataclass(frozen=True, slots=True)
class FileRules:
    """Rules by which the files of a source count as new, as copies, or as published."""

    copies: Copies = "refuse"
    """Handling of a file with the content of another file."""
    settings: str = ""
    """Digest of the settings with which the records are read."""
    in_order: bool = False
    """True if the files behind one that was left out wait for it."""
    is_bare: Callable[[Path], bool] = lambda _: False
    """Returns whether a file holds no record, so that its copies are harmless."""


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Published files at the time of publication, by source and resolved path."""

    entries: Mapping[tuple[str, str], FileEntry] = field(default_factory=dict)

    def with_runs(self, manifests: Iterable[Manifest]) -> PublishedFiles:
        """Adds the files of runs."""
        entries = dict(self.entries)
        for manifest in manifests:
            for source in manifest.sources:
                entries |= {(source.name, entry.path): entry for entry in source.files}
        return PublishedFiles(entries)

    def of(self, source: str) -> list[FileEntry]:
        """The files of a source."""
        return [entry for (name, _), entry in self.entries.items() if name == source]

    def new_of(
        self, source: str, paths: Sequence[Path], rules: FileRules | None = None
    ) -> list[Path]:
        """Selects the files of a source that are not published yet, or were empty when they were published.

        A file whose records were all rejected, or that was left out as a whole, is new after a change of the
        file or of the settings.

        Raises:
            FatalError: A published file has other content now, or a new one is a copy.
        """
        rules = rules or FileRules()
        new: dict[Path, FileEntry] = {}
        for path in paths:
            now = FileEntry.of(path)
            if self._is_new(source, path, now, rules):
                if now not in new.values():
                    new[path] = now
            elif rules.in_order and self.entries[source, now.path].is_left_out:
                break
        if rules.copies == "refuse":
            self._refuse_copies(source, new, rules)
        return list(new)

    def _is_new(self, source: str, path: Path, now: FileEntry, rules: FileRules) -> bool:
        published = self.entries.get((source, now.path))
        if published is None or (now.bytes and not published.bytes):
            return True
        is_same = published.has_content_of(now)
        if published.refused is not None:
            return not is_same or published.refused != rules.settings
        if is_same:
            return False
        difference = (
            f"had {published.bytes:,} bytes when it was published, and has {now.bytes:,} now"
        )
        if published.bytes == now.bytes:
            difference = (
                "has the same size as when it was published, but other content than the ledger says"
            )
        raise FatalError(
            f"{path} {difference}: write new records to a new file, and restore this one"
        )

    def _refuse_copies(self, source: str, new: Mapping[Path, FileEntry], rules: FileRules) -> None:
        """Refuses files with equal content; reads only files of equal size."""
        by_size: dict[int, list[FileEntry]] = {}
        for entry in self.of(source):
            if entry.bytes and entry.effect and entry.refused is None:
                by_size.setdefault(entry.bytes, []).append(entry)
        for path, now in new.items():
            others = by_size.get(now.bytes, [])
            for other in (entry for entry in others if entry.path != now.path):
                is_published = (source, other.path) in self.entries
                if _digest_of(now) == _digest_of(other) and (
                    is_published or not rules.is_bare(path)
                ):
                    raise _copy_error(path, other)
            if now.bytes:
                by_size.setdefault(now.bytes, []).append(now)


def _digest_of(entry: FileEntry) -> str | None:
    return entry.digest or entry.with_digest().digest


def _copy_error(path: Path, other: FileEntry) -> FatalError:
    return FatalError(
        f"{path} has the same content as {other.path}, and its records would be published twice: "
        'remove the copy; or set copies = "publish" for the source where equal files are separate '
        "changes"
    )

"""Which files a job has published: what is kept of sources that have no status column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from publisher.errors import FatalError
from publisher.journal.durable import write_durably
from publisher.journal.file_entries import FileEntry
from publisher.journal.manifest import Manifest


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Published files as they were then, by source and path."""

    entries: Mapping[tuple[str, str], FileEntry] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> PublishedFiles:
        """What was written.  Raises ``FatalError`` where it is damaged."""
        if not path.exists():
            return cls()
        try:
            found = {}
            for entry in json.loads(path.read_text(encoding="utf-8")):
                source = entry.pop("source")
                found[source, entry["path"]] = FileEntry(**entry)
            return cls(found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FatalError(
                f"{path} is damaged: restore it; without it all files would be published again"
            ) from error

    def with_runs(self, manifests: Iterable[Manifest]) -> PublishedFiles:
        """With the files of runs."""
        found = dict(self.entries)
        for manifest in manifests:
            for source in manifest.sources:
                found |= {(source.name, entry.path): entry for entry in source.files}
        return PublishedFiles(found)

    def write(self, path: Path) -> None:
        """Writes it durably."""
        entries = [
            {"source": source} | asdict(entry) for (source, _), entry in self.entries.items()
        ]
        write_durably(path, json.dumps(entries, indent=1) + "\n")

    def new_of(self, source: str, paths: Sequence[Path]) -> Iterator[Path]:
        """The files of a source that were not published, or were empty then.

        Raises:
            FatalError: One was, and has other content now.
        """
        for path in paths:
            published, now = self.entries.get((source, str(path))), FileEntry.of(path)
            if published is None or (now.bytes and not published.bytes):
                yield path
            elif not published.is_as_published(now):
                then = f"had {published.bytes:,} bytes when it was published, and has {now.bytes:,} now"
                if published.bytes == now.bytes:
                    then = "has other content than when it was published, in as many bytes"
                raise FatalError(
                    f"{path} {then}: put what is new into a file of its own, and restore this one"
                )

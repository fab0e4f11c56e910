"""Which files a job has published: what is kept of sources that have no status column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from publisher.errors import FatalError
from publisher.journal.durable import write_durably
from publisher.journal.manifest import Manifest


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Sizes of published files in bytes, by source and path."""

    sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> PublishedFiles:
        """What was written.  Raises ``FatalError`` where it is damaged."""
        if not path.exists():
            return cls()
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
            return cls({(entry["source"], entry["path"]): entry["bytes"] for entry in entries})
        except (ValueError, KeyError, TypeError) as error:
            raise FatalError(
                f"{path} is damaged: restore it; without it all files would be published again"
            ) from error

    def with_runs(self, manifests: Iterable[Manifest]) -> PublishedFiles:
        """With the files of runs."""
        found = dict(self.sizes)
        for manifest in manifests:
            for source in manifest.sources:
                found |= {(source.name, entry.path): entry.bytes for entry in source.files}
        return PublishedFiles(found)

    def write(self, path: Path) -> None:
        """Writes it durably."""
        entries = [
            {"source": source, "path": name, "bytes": size}
            for (source, name), size in self.sizes.items()
        ]
        write_durably(path, json.dumps(entries, indent=1) + "\n")

    def new_of(self, source: str, paths: Sequence[Path]) -> Iterator[Path]:
        """The files of a source that were not published.

        Raises:
            FatalError: One was, and has another size now.
        """
        for path in paths:
            published, size = self.sizes.get((source, str(path))), path.stat().st_size
            if published is None:
                yield path
            elif published != size:
                raise FatalError(
                    f"{path} had {published:,} bytes when it was published, and has {size:,} now: "
                    "put what is new into a file of its own, and restore this one"
                )

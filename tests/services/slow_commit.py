"""The program on a disk that takes seconds to commit a journal.

``python -m tests.services.slow_commit`` takes the words of ``xds-publisher``.
"""

from __future__ import annotations

import time

from publisher.cli import main as cli
from publisher.journal.manifest import Journal, Manifest
from tests.chaos.marks import phase

MODULE = "tests.services.slow_commit"
SECONDS = 5.0


def main() -> None:
    """Delays the commit of each journal."""
    real = Journal.commit

    def commit(self: Journal, manifest: Manifest) -> None:
        with phase("commit"):
            time.sleep(SECONDS)
            real(self, manifest)

    Journal.commit = commit  # type: ignore[method-assign]
    cli.main()


if __name__ == "__main__":
    main()

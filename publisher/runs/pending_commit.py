"""The commit of a journal, which may end while the sink gets documents that nobody can read yet."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from publisher.dispatch.contract import wait_for_nothing
from publisher.journal.durable import start_in_thread
from publisher.journal.manifest import Journal, Manifest


class PendingCommit:
    """Commits a journal: in a thread if its files are in their places already, otherwise at once.

    Whoever gets a pickled copy, in another process, need not wait: the journal is committed before."""

    def __init__(
        self,
        journal: Journal,
        manifest: Manifest,
        meanwhile: Callable[[Manifest], None] | None = None,
    ) -> None:
        """``meanwhile`` is further work, for which ``wait`` need not wait."""
        self._work = None if meanwhile is None else partial(meanwhile, manifest)
        self._end: Future[None] | None = None
        if manifest.is_in_place:
            self._end = start_in_thread(partial(journal.commit, manifest))
        else:
            journal.commit(manifest)

    def __call__(self) -> None:
        """Does the further work once; then as ``wait``."""
        work, self._work = self._work, None
        if work is not None:
            work()
        self.wait()

    def __reduce__(self) -> tuple[Callable[[], Callable[[], None]], tuple[()]]:
        self()
        return _no_commit, ()

    def wait(self) -> None:
        """Returns once the journal is committed.  May be called any number of times.

        Raises:
            OSError: The journal cannot be committed; no document of it may become visible.
        """
        if self._end is not None:
            self._end.result()


def _no_commit() -> Callable[[], None]:
    return wait_for_nothing

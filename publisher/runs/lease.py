"""Lease of a job: the newest instance of a job holds the lease, other instances stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from publisher.config.settings import Settings
from publisher.errors import PublisherError
from publisher.journal.epoch import Epoch, begin_epoch
from publisher.journal.identity import open_identity
from publisher.journal.job_journals import Journals
from publisher.journal.lineage import Lineage
from publisher.runs.job_sink import refuse_foreign_progress

if TYPE_CHECKING:
    from publisher.dispatch.kafka.topic_admin import KafkaTopics


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one instance to work on a job, until a newer instance takes it over."""

    journals: Journals
    lineage: Lineage
    check: Epoch
    """Raises ``ReplacedError`` if a newer instance has taken over; tasks on other machines call it too."""

    @classmethod
    def take(cls, settings: Settings, *, recovers: bool) -> tuple[Lease, KafkaTopics | None]:
        """Takes a job over from older instances.

        ``recovers`` accepts a sink with progress of a lost journal.  Returns also the topics of the cluster,
        for ``JobSink.take_over``, if they were requested.

        Raises:
            FatalError: The progress of the sink does not fit the journal.
        """
        journals = Journals(settings.journals, settings.name)
        journals.segments.check_versions()
        lineage = Lineage(open_identity(journals.root), journals)
        topics = None if recovers else refuse_foreign_progress(settings, lineage)
        return cls(journals, lineage, begin_epoch(journals.root, lineage.identity)), topics

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Raises the loss of the lease instead of errors that the loss causes, such as missing files."""
        try:
            yield
        except (OSError, PublisherError):
            self.check()
            raise

"""Lease of a job: the newest instance of a job holds the lease, other instances stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from publisher.config.settings import Settings
from publisher.errors import PublisherError, RunningError
from publisher.ledger.instance import Epoch
from publisher.ledger.job import Ledger
from publisher.runs.following import describe_follower, is_followed
from publisher.runs.job_sink import refuse_foreign_progress

if TYPE_CHECKING:
    from publisher.dispatch.kafka.topic_admin import KafkaTopics


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one instance to work on a job, until a newer instance takes it over."""

    ledger: Ledger
    check: Epoch
    """Raises ``ReplacedError`` if a newer instance has taken over; tasks on other machines call it too."""

    @classmethod
    def take(
        cls, settings: Settings, *, recovers: bool, follows: bool
    ) -> tuple[Lease, KafkaTopics | None]:
        """Takes a job over from older instances.

        Only an instance that ``follows`` takes it over from one that follows: after any other command nobody
        would publish.  ``recovers`` accepts a sink with progress of a lost ledger.  Returns also the topics
        of the cluster, for ``JobSink.take_over``, if they were requested.

        Raises:
            RunningError: An instance follows the job.
            FatalError: The progress of the sink does not fit the ledger.
        """
        ledger = Ledger(settings.ledger_folder, settings.name)
        is_followed(ledger.root)  # refuses a job of another machine before its ledger is opened
        ledger.check()
        identity = ledger.open_identity()
        topics = None if recovers else refuse_foreign_progress(settings, ledger)
        refuse = None if follows else partial(_refuse_followed, settings)
        epoch = Epoch(ledger, ledger.begin_epoch(refuse), identity)
        return cls(ledger, epoch), topics

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Raises the loss of the lease instead of errors that the loss causes, such as missing files."""
        try:
            yield
        except (OSError, PublisherError):
            self.check()
            raise


def _refuse_followed(settings: Settings) -> None:
    if is_followed(settings.ledger_folder):
        raise RunningError(
            f"job {settings.name} is followed by another instance "
            f"({describe_follower(settings.ledger_folder)}), which this command would end: stop it, "
            "then start this command again"
        )

"""The files of a planned lane, staged under the name of the attempt."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from publisher.ledger.documents import DocumentLog
from publisher.ledger.durable import sync
from publisher.ledger.lane_result import Count, LaneNames, LaneResult, folder_of_lane
from publisher.ledger.lookups import LookupLog
from publisher.ledger.records import PositionText, RecordLog
from publisher.model.change import Outcome
from publisher.model.outcomes import Outcomes


class LaneFiles:
    """Writes the plan of one lane.  Files are private (0600), because they contain personal data."""

    def __init__(
        self,
        lane: int,
        staging: Path,
        documents: Path,
        attempt: str,
        position_texts: Sequence[PositionText],
        convert: Callable[[str], str] | None = None,
    ) -> None:
        """The ledger's files go to ``staging``, the sink's files to ``documents``.

        ``attempt`` distinguishes the attempts of one task; without it there is one, whose files go to their
        places above these folders.  ``position_texts`` format the positions of each source; ``convert``
        gives documents another form than XML."""
        self._lane = lane
        self._names = LaneNames(lane)
        self._started = time.monotonic()
        self._staged = f"{attempt}-{lane:05d}" if attempt else ""
        self._folder = folder_of_lane(staging, self._staged)
        self._documents_folder = folder_of_lane(documents, self._staged)
        for folder in (self._folder, self._documents_folder):
            folder.mkdir(parents=True, exist_ok=True)
        names, folder = self._names, self._folder
        self._documents = DocumentLog(
            self._documents_folder / names.part, folder / names.index, convert
        )
        self._records = RecordLog(folder / names.records, position_texts)
        self.lookups = LookupLog(folder / names.lookups)
        self._tallies: list[tuple[int, int]] = []

    @property
    def objects(self) -> Path:
        """The file for the published states of objects."""
        return self._folder / self._names.objects

    def add_arrivals(self, batch: pa.RecordBatch) -> int:
        """Adds the next arrivals; returns the row number of the first."""
        return self._records.add_arrivals(batch)

    def add_tally(self, split: int, records: int) -> None:
        """Records the number of records of a split."""
        self._tallies.append((split, records))

    def add_plan(
        self, source: int, documents: Sequence[pa.RecordBatch], outcomes: Sequence[Outcomes]
    ) -> None:
        """Adds documents in their order, and the outcomes of changes without one."""
        for batch in documents:
            self._records.publish(batch, self._documents.write(source, batch))
        for each in outcomes:
            self._records.decide(each)

    def advance(self) -> None:
        """Writes complete batches; called once for each batch of arrivals."""
        self._records.advance()

    @property
    def rows_in_memory(self) -> int:
        """Number of records that are not written yet."""
        return self._records.rows_in_memory

    def close(self, objects: int = 0, *, syncs: bool = True) -> LaneResult:
        """Completes the files; ``LedgerRun.commit`` syncs them, too.

        ``objects`` is the number of written states of objects.  Without ``syncs`` the files may be lost if
        this machine fails before the commit, which must then come from this machine.

        Raises:
            InternalError: A change has no decision.
        """
        self._records.close()
        self._documents.close()
        self.lookups.close()
        result = LaneResult(
            lane=self._lane,
            staged=self._staged,
            documents=self._documents.count,
            bytes=self._documents.bytes,
            operations=tuple(sorted(self._documents.operations.items())),
            counts=tuple(
                Count(source, Outcome(outcome), reason, records)
                for (source, outcome, reason), records in sorted(
                    self._records.counts.items(),
                    key=lambda item: (*item[0][:2], item[0][2] or ""),
                )
            ),
            tallies=tuple(self._tallies),
            digest=self._documents.digest,
            objects=objects,
            seconds=round(time.monotonic() - self._started, 3),
            lookups=self.lookups.count,
            span=self._records.span,
            published=tuple(
                sorted((*key, *bounds) for key, bounds in self._records.published.items())
            ),
        )
        self._protect(result, [self.objects] if objects else [], syncs=syncs)
        return result

    def _protect(self, result: LaneResult, others: Sequence[Path], *, syncs: bool) -> None:
        files = [*(self._folder / name for name in result.files), *others]
        files.append(self._documents_folder / self._names.part)
        for path in files:
            path.chmod(0o600)
        folders = (self._folder, self._documents_folder)
        paths = [*files, *folders, *(folder.parent for folder in folders)]
        sync(paths if syncs else others)  # the commit does not know the others

    def abandon(self) -> None:
        """Closes the files of a failed attempt; the next start removes them from the staging folders."""
        for close in (
            self._records.abandon,
            self._documents.abandon,
            self.lookups.abandon,
        ):
            with suppress(OSError):  # a full disk, for example: the first error is reported
                close()

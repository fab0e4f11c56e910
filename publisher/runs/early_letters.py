"""The letters of the rows of a planned run, read while its documents travel to the sink."""

from __future__ import annotations

from dataclasses import dataclass, field

from publisher.acknowledge.status_letters import SourceLetters
from publisher.acknowledge.unsettled import MOST_RECORDS
from publisher.acknowledge.write_status import letters_of
from publisher.journal.manifest import Journal, Manifest
from publisher.runs.acknowledge import has_status


@dataclass(frozen=True, slots=True)
class EarlyLetters:
    """The letters of a small run, valid unless the sink refuses documents of it."""

    journal: Journal
    by_source: SourceLetters = field(default_factory=dict)

    def read(self, manifest: Manifest) -> None:
        """Reads the letters.  Raises ``FatalError`` if the journal is damaged."""
        if manifest.records_read > MOST_RECORDS:
            return
        for number, entry in enumerate(manifest.sources):
            if has_status(entry):
                self.by_source[number] = letters_of(self.journal, manifest, number, {})

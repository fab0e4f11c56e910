"""Explains documents: from their place in a topic or file back to records and looked-up rows."""

from __future__ import annotations

import re
from pathlib import Path

from publisher.dispatch.kafka.options import KafkaOptions
from publisher.errors import UsageError
from publisher.ledger.read import find_job, find_run
from publisher.ledger.run_reader import DecidedRecord
from publisher.reports.explain import RecordStory, StoryReader, explain, stories_of
from publisher.reports.places import FilePlace, TopicPlace, target_of

_ORDINAL = re.compile(r"\.\d+$")


def explain_line(place: FilePlace) -> list[RecordStory]:
    """Explains the records of the document on a line of a part file.

    Raises:
        UsageError: The file is not a part file beside a ledger, or has no such line.
        FatalError: The ledger is damaged, or another version of the program wrote it.
    """
    lane, number = place.lane, place.line - 1

    folder = place.file.absolute().parent
    try:
        run = find_run(folder)
    except UsageError:  # the documents of a topic are in a folder of the run
        run = find_run(folder.parent)
    results = run.manifest.results
    count = next((result.documents for result in results if result.lane == lane), 0)
    if not 0 <= number < count:
        raise UsageError(f"{place.file} has {count:,} document(s): correct line {place.line}")
    return stories_of(run, lambda reader: reader.of_document(lane, number))


def explain_offset(
    directory: Path, place: TopicPlace, options: KafkaOptions | None
) -> list[RecordStory]:
    """Explains the records of the document at an offset, which is read from its topic.

    ``options`` configure the connection; by default the brokers are those that the ledger names.

    Raises:
        UsageError: There is no document at this place, or the ledger does not have it.
        FatalError: The ledger is damaged, or another version of the program wrote it.
        UnreachableError: The brokers do not answer.
    """
    from publisher.dispatch.kafka.read_headers import read_headers  # noqa: PLC0415 - an extra

    options = options or _options_of(directory)
    headers = read_headers(options, place.topic, place.partition, place.offset)
    event_id = headers.get("event-id")
    if event_id is None:
        raise UsageError(f"{place} is not a record of this program: it has no header event-id")
    is_letter = "reason" in headers

    def find(reader: StoryReader, selector: str) -> list[DecidedRecord]:
        found = reader.find(selector)
        return found if is_letter else reader.with_event_id(found, event_id)

    try:
        return explain(directory, event_id, find)
    except UsageError:
        shorter = _ORDINAL.sub("", event_id)  # one record may have several documents
        if shorter == event_id:
            raise
        return explain(directory, shorter, find)


def _options_of(directory: Path) -> KafkaOptions:
    """The brokers that the newest run of a ledger names, without a login."""
    job = find_job(directory)
    newest = job.newest_run() if job is not None else find_run(directory).handle
    end = None if newest is None else newest.acknowledgement
    targets = [] if end is None or end.target is None else [end.target]
    if not targets:
        raise UsageError(
            f"{directory} names no brokers: give the job file with -c, whose [dispatch] names them"
        )
    return KafkaOptions().with_target(target_of(targets[-1]))

"""Reads documents from files: part files of runs, or any files of documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from publisher.consumer.delivery import Delivery
from publisher.consumer.errors import ConsumerError, DocumentError, Origin
from publisher.consumer.parse import DEFAULT_LIMITS, Limits, parse_document
from publisher.xds.framing import BROKEN_FILE, documents

_COMPLETE = "run.json"
_PARTS = "part-*.xds"


def read_files(paths: Iterable[str | Path], limits: Limits = DEFAULT_LIMITS) -> Iterator[Delivery]:
    """Reads files in the given order, document by document; a file may be compressed with gzip.

    A key change is in a file once, at its place in the order, so it is applied at once.

    Raises:
        DocumentError: A document cannot be used, or a file cannot be read.
    """
    for path in paths:
        origin = Origin(str(path), 0)
        try:
            for framed in documents(Path(path)):
                origin = Origin(str(path), framed.line)
                if framed.problem is not None:
                    raise DocumentError(origin, framed.problem)
                yield Delivery(parse_document(framed.data, origin, limits), origin)
        except BROKEN_FILE as error:
            raise DocumentError(
                origin, f"cannot be read ({error}): check the path, or copy the file again"
            ) from error


def part_files(directory: str | Path) -> list[Path]:
    """Lists the part files of a replay, or of all complete runs of a job, in the order of reading.

    Raises:
        ConsumerError: The directory has no complete run.
    """
    root = Path(directory)
    runs = [root]
    if (root / "runs").is_dir():
        # the number of a run may have more digits than that of an earlier one
        runs = sorted((root / "runs").iterdir(), key=lambda path: (len(path.name), path.name))
    complete = [run for run in runs if (run / _COMPLETE).is_file()]
    if not complete:
        raise ConsumerError(
            str(root), f"no run is complete ({_COMPLETE} is missing): publish first"
        )
    return [part for run in complete for part in sorted(run.glob(_PARTS))]

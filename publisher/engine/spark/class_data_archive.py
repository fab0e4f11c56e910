"""Creates the class-data archive with which Spark's JVM starts several times faster.

``python -m publisher.engine.spark.class_data_archive`` runs once, at set-up: a session imitates a run,
and when it ends, its JVM writes the classes that it has loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from publisher.engine.spark.jvm import archive_path, find_archive, launch
from publisher.engine.spark.options import SparkOptions, conf_of
from publisher.engine.spark.session import spark_session
from publisher.errors import PublisherError

_OPTIONS = SparkOptions(master="local[2]")
_LANES = 2


def create_archive() -> Path:
    """Creates the archive for this Java and this Spark unless it exists; returns its path.

    Raises:
        PublisherError: Spark does not start, or the JVM wrote nothing.
    """
    path = archive_path()
    if find_archive() is not None:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    jvm = launch(conf_of(_OPTIONS), archive=None, flags=(f"-XX:ArchiveClassesAtExit={unfinished}",))
    with spark_session(_OPTIONS, jvm) as spark:
        (
            spark.range(0, _LANES, 1, _LANES)
            .mapInArrow(_records, "lane int, part string, rank bigint, columns array<string>")
            .repartitionById(_LANES, "lane")
            .sortWithinPartitions("rank", "part")
            .mapInArrow(_results, "result string")
            .collect()
        )
    if not unfinished.exists():
        raise PublisherError(
            f"the JVM did not write {path}: free memory and disk, or wait until the machine is less busy"
        )
    path.with_suffix(".size").write_text(str(unfinished.stat().st_size))
    unfinished.chmod(0o644)
    unfinished.rename(path)
    return path


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([number], pa.int32()),
                    pa.array(["file"]),
                    pa.array([number], pa.int64()),
                    pa.array([["column"]]),
                ],
                names=["lane", "part", "rank", "columns"],
            )


def _results(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"result": [str(sum(batch.num_rows for batch in batches))]})


if __name__ == "__main__":
    try:
        create_archive()
    except PublisherError as error:
        sys.exit(f"error: {error}")

"""Ships the package to executors on other machines, and proves that it arrived.

Nodes need no installation: the driver sends its own package as a zip.  The ledger is
written by the executors, so all of them must share its directory.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

import publisher
from publisher.engine.spark.options import is_local
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.errors import FatalError

_PACKAGE = Path(publisher.__file__).parent
_SUFFIXES = frozenset({".py", ".properties", ".sql"})
_SPREAD_SECONDS = 0.3
"""Minimum duration of a probing task: while it occupies its executor, Spark gives other tasks to others."""


def ship(spark: SparkSession) -> str | None:
    """Sends the package to the executors; returns its digest, ``None`` if the driver runs the tasks."""
    if is_local(str(spark.sparkContext.master)):
        return None
    content = package_zip()
    digest = hashlib.sha256(content).hexdigest()[:16]
    name = f"publisher-{digest}.zip"
    # Spark refuses another file of the same name
    if name not in (spark.sparkContext._python_includes or ()):
        # executors that start later fetch it, too; Spark removes the directory when the session ends
        path = Path(spark.sparkContext._temp_dir, name)
        path.write_bytes(content)
        spark.sparkContext.addPyFile(str(path))
    return digest


def package_zip() -> bytes:
    """Zips the package: equal files give equal bytes.  If the package runs from a zip, returns that zip."""
    if not _PACKAGE.is_dir():
        return _PACKAGE.parent.read_bytes()
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(_PACKAGE.rglob("*")):
                if path.suffix in _SUFFIXES:
                    name = path.relative_to(_PACKAGE.parent).as_posix()
                    archive.writestr(zipfile.ZipInfo(name), path.read_bytes())
        file.seek(0)
        return file.read()


def probe(spark: SparkSession, digest: str | None, *, ledger: Path) -> int:
    """Proves on the executors that they run the shipped package and see the ledger's directory.

    ``digest`` comes from :func:`ship`.  Returns the number of executors that answered; removes the files
    of the proof.

    Raises:
        FatalError: An executor has another package, lacks a library, or sees another directory.
    """
    tasks = 2 * spark.sparkContext.defaultParallelism
    with _probe_file(ledger) as (file, secret):
        prober = _prober(digest, file, secret)
        answers = spark.range(0, tasks, 1, tasks).mapInArrow(
            prober, "executor string, token string"
        )
        with decode_errors():
            rows = answers.collect()
        unseen = sorted({row[0] for row in rows if not _answer(file, row[1]).exists()})
    if unseen:
        raise FatalError(
            _sharing_error(
                ledger, f"lacks, on the driver, the files that {', '.join(unseen)} wrote"
            )
        )
    return len({row[0] for row in rows})


def _prober(
    digest: str | None, file: Path, secret: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        executor, token = f"{socket.gethostname()}/{os.getppid()}", uuid4().hex
        with encode_errors():
            for _ in batches:
                _check_package(digest, executor)
                _check_directory(file, secret, executor)
            _answer(file, token).write_text(secret)
        time.sleep(_SPREAD_SECONDS)
        yield pa.RecordBatch.from_pydict({"executor": [executor], "token": [token]})

    return answer


def _check_package(digest: str | None, executor: str) -> None:
    if digest is not None and digest not in publisher.__file__:
        raise FatalError(
            f"executor {executor} runs the package {publisher.__file__}, not the one that was sent:"
            " remove it from the Python path of the nodes and start again"
        )


def _check_directory(file: Path, secret: str, executor: str) -> None:
    if not file.exists() or file.read_text() != secret:
        raise FatalError(
            _sharing_error(file.parent, f"on executor {executor} is not that of the driver")
        )


def _sharing_error(ledger: Path, problem: str) -> str:
    return (
        f"the ledger directory {ledger} {problem}: set one that driver and executors share, such as"
        " a network file system"
    )


def _answer(file: Path, token: str) -> Path:
    return file.with_name(f"{file.name}.{token}")


@contextmanager
def _probe_file(ledger: Path) -> Iterator[tuple[Path, str]]:
    ledger.mkdir(parents=True, exist_ok=True)
    secret = uuid4().hex
    file = ledger.resolve() / f".probe-{secret[:8]}"
    file.write_text(secret)
    try:
        yield file, secret
    finally:
        for path in (file, *file.parent.glob(f"{file.name}.*")):
            path.unlink(missing_ok=True)

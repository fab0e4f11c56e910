"""The Spark session of the caller: its check, its engine, files that its tasks share, and its errors."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from publisher.config.settings import Settings
from publisher.engine.auto import AutoEngine
from publisher.engine.contract import Engine
from publisher.engine.local import ONE_PROCESS, LocalEngine
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.spark.options import is_local
from publisher.engine.spark.session import check_session
from publisher.engine.spark.task_errors import decode_errors
from publisher.errors import UsageError

KEPT = ExitStack()
"""Files and resources that DataFrames read, until the Python process ends."""
atexit.register(KEPT.close)


def engine_of(spark: SparkSession, settings: Settings) -> Engine:
    """Returns the engine that ``[run] engine`` names; Spark works in the context of the session, which stays.

    ``auto`` surveys and plans small input in this process.

    Raises:
        SettingsError: The program cannot work in the session.
    """
    engine = SparkEngine(settings.spark, "session of the caller", check_session(spark))
    name = settings.run.engine
    if name == "local":
        return LocalEngine()
    if name == "spark" or not is_local(str(spark.sparkContext.master)):
        return engine
    return AutoEngine(settings.spark, ONE_PROCESS, spark=engine)


def shared_folder(spark: SparkSession, scratch: str | os.PathLike[str] | None) -> Path:
    """Creates a folder that driver and tasks see, until the Python process ends.

    Raises:
        UsageError: The tasks run on other machines, and no directory is named.
    """
    if scratch is None and not is_local(str(spark.sparkContext.master)):
        raise UsageError(
            "tasks run on other machines: name a directory that all of them share with the driver, as "
            'scratch="/mnt/shared"'
        )
    folder = TemporaryDirectory(prefix="xds-publisher-", dir=scratch, ignore_cleanup_errors=True)
    return Path(KEPT.enter_context(folder))


@contextmanager
def publisher_errors() -> Iterator[None]:
    """Raises the program's own errors, with their positions, instead of the errors that Spark makes of them.

    For actions on the DataFrames of this package: Spark itself gives only the text of an error.

    Raises:
        PublisherError: The error of a task, see ``publisher.errors``.
    """
    with decode_errors():
        yield

"""Options of Spark in a job file.  Imports no pyspark: commands without Spark read job files too."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

LOCAL = "local[*]"
JAVA_OF_SETUP = Path(sys.prefix, "java-home")
"""Names the Java runtime that `./run setup` has installed."""

DEFAULTS: Mapping[str, str] = {
    "spark.app.name": "xds-publisher",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Two copies of a task would both stage files and both query the database.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # The job has one shuffle with a number of partitions that must not change.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # A worker holds two batches, whose rows may be long.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2m",
}
"""Default settings of Spark; the job file overrides each."""

ON_THIS_MACHINE: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Over TCP, each task waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Settings for driver and executors on one machine, which share its Python packages."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The ``[spark]`` table of a job file."""

    master: str | None = None
    """Spark master, as for ``spark-submit --master``; by default the one that ``spark-submit``
    sets, or else ``local[*]``."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Any setting of Spark by its own name, as text: ``"spark.driver.memory" = "4g"``. It overrides
    the program's own choice."""


_SECRET = re.compile(
    r"passw|secret|token|credential|(access|account|encryption)[.-]?key", re.IGNORECASE
)


def secrets_of(options: SparkOptions) -> list[str]:
    """Values of settings whose names look like secrets."""
    return [value for name, value in options.conf.items() if _SECRET.search(name)]


def missing_for_spark() -> str | None:
    """What Spark needs and this machine lacks; ``None`` if it can start."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed"
    if not (os.environ.get("JAVA_HOME") or JAVA_OF_SETUP.exists() or shutil.which("java")):
        return "no Java runtime was found"
    return None


def is_local(master: str) -> bool:
    """Returns whether driver and executors are one process."""
    return master == "local" or master.startswith("local[")


def conf_of(options: SparkOptions) -> dict[str, str]:
    """Settings of a session that the program starts: the defaults, overridden by the job file.

    Spark's UI is on where the job file names a master: its operators look at it."""
    named = options.master or options.conf.get("spark.master")
    master = named or LOCAL
    local = dict(ON_THIS_MACHINE) if is_local(master) else {}
    ui = {"spark.ui.enabled": "true"} if named else {}
    return {"spark.master": master, **DEFAULTS, **ui, **local, **options.conf}

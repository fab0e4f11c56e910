"""What a job file says of Spark.  Imports no pyspark: commands without Spark read job files too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The ``[spark]`` table of a job file."""

    master: str | None = None
    """Where Spark runs, as ``spark-submit --master`` has it.  ``None``: what ``spark-submit`` says,
    else all cores of this machine (``local[*]``)."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings by name (``"spark.driver.memory" = "4g"``); they override the program's."""

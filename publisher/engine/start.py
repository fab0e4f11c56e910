"""Starts the engine of a process."""

from __future__ import annotations

import os

from publisher.engine.auto import AutoEngine
from publisher.engine.contract import Engine, EngineName
from publisher.engine.local import LocalEngine
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.spark.options import SparkOptions

_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"
"""Environment variable that ``spark-submit`` sets."""


def start_engine(name: EngineName, options: SparkOptions) -> Engine:
    """Returns an engine; its processes start with the first operation that needs them."""
    if name == "local":
        return LocalEngine()
    if name == "spark":
        return SparkEngine(options)
    if options.master or "spark.master" in options.conf:
        return SparkEngine(options, "[spark] master is set")
    if _SPARK_SUBMIT in os.environ:
        return SparkEngine(options, "spark-submit started the program")
    return AutoEngine(options)

"""Starts the engine of a process."""

from __future__ import annotations

from publisher.engine.contract import Engine
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.spark.options import SparkOptions


def start_engine(options: SparkOptions) -> Engine:
    """Returns the engine for these options; its processes start with the first operation."""
    return SparkEngine(options)

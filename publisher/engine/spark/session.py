"""The Spark session of a run: a new session, or an existing one in which the program can work."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from publisher.engine.spark.launch import GATEWAY_PORT, launch
from publisher.engine.spark.options import DEFAULTS, SparkOptions, conf_of
from publisher.errors import FatalError, SettingProblem, SettingsError
from publisher.no_pandas import show_pandas
from publisher.redaction import redact_all

_OLDEST = (4, 1)


@contextmanager
def spark_session(options: SparkOptions) -> Iterator[SparkSession]:
    """Opens the session of a run; a new session ends with the block, an existing one stays.

    Raises:
        FatalError: Spark does not start.
        SettingsError: The program cannot work in the session; the message names the settings.
    """
    show_pandas()
    if is_remote():
        text = "the program cannot work through Spark Connect: unset SPARK_REMOTE and start again"
        raise SettingsError([SettingProblem((), text)])
    existing = _existing_session()
    if existing is not None:
        yield use_existing(existing, options)
        return
    starts_jvm = SparkContext._gateway is None and GATEWAY_PORT not in os.environ
    try:
        with _report_settings():
            spark = _start(options)
        yield check_session(spark)
    finally:
        _close(ends_jvm=starts_jvm)


def _start(options: SparkOptions) -> SparkSession:
    """Starts a session; the job file overrides the settings of ``spark-submit`` and of the installation."""
    _use_python(options)
    job_file = {**options.conf, **({"spark.master": options.master} if options.master else {})}
    if SparkContext._gateway is None:
        SparkContext._ensure_initialized(gateway=launch(job_file))
    conf = SparkConf()
    settings = {**conf_of(options), "spark.log.level": "ERROR"}  # standard error is for messages
    for name, value in settings.items():
        if name in job_file or not conf.contains(name):
            conf.set(name, value)
    with _restore_interrupts():
        return SparkSession(SparkContext(conf=conf))


@contextmanager
def _report_settings() -> Iterator[None]:
    """Reports settings that Spark refuses, while its JVM can still give the reason.

    Raises:
        FatalError: Spark does not start with these settings.
    """
    try:
        yield
    except Py4JError as error:
        lines = redact_all(str(error)).splitlines()
        reason = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
        raise FatalError(
            f"Spark does not start ({reason}): correct [spark] of the job file, then start again"
        ) from None


def _existing_session() -> SparkSession | None:
    return SparkSession._instantiatedSession


@contextmanager
def _restore_interrupts() -> Iterator[None]:
    """Undoes pyspark's handler of Ctrl-C, which calls the JVM in the middle of another call.

    Nothing is lost: an interrupted command ends the session, and with it the JVM and its jobs.
    """
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _use_python(options: SparkOptions) -> None:
    """Makes workers run the driver's Python, unless the job file sets another."""
    python = options.conf.get("spark.pyspark.python")
    if python:
        os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def use_existing(existing: SparkSession, options: SparkOptions) -> SparkSession:
    """Opens a session of our own in an existing context; the settings of its owner remain."""
    spark = check_session(existing.newSession())
    for name, value in {**DEFAULTS, **options.conf}.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark


def check_session(spark: SparkSession) -> SparkSession:
    """Returns the session.  Raises ``SettingsError`` if the program cannot work in it."""
    problems = []
    context = spark.sparkContext
    for name, present in (("PySpark", pyspark.__version__), ("Spark", spark.version)):
        if tuple(int(part) for part in present.split(".")[:2]) < _OLDEST:
            problems.append(f"{name} is {present}: use {'.'.join(map(str, _OLDEST))} or newer")
    if context.getConf().get("spark.speculation", "false") == "true":
        problems.append(
            "spark.speculation is on, and two copies of a task would do its work twice:"
            " set spark.speculation = false"
        )
    if problems:
        raise SettingsError([SettingProblem((), text) for text in problems])
    return spark


def _close(*, ends_jvm: bool) -> None:
    """Ends the session, and with it the JVM that was started for it."""
    gateway: Any = SparkContext._gateway
    existing = _existing_session()
    try:
        if existing is not None:
            # tasks that still run after an interrupt would log errors about the end
            existing.sparkContext.setLogLevel("OFF")
            existing.stop()
    finally:
        if ends_jvm and gateway is not None:
            SparkContext._gateway = SparkContext._jvm = None
            gateway.shutdown()
            gateway.proc.stdin.close()  # a JVM whose standard input ends, ends
            gateway.proc.wait()

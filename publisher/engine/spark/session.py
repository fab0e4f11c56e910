"""The Spark session of a run: the program's own, or the one that is there, where it can work in it."""

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
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from publisher.engine.spark.jvm import Jvm, start_jvm
from publisher.engine.spark.options import DEFAULTS, SparkOptions, conf_of
from publisher.errors import FatalError, SettingProblem, SettingsError
from publisher.redaction import redact_all

__all__ = ["spark_session", "start_jvm"]

_OLDEST = (4, 1)
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


@contextmanager
def spark_session(options: SparkOptions, jvm: Jvm | None = None) -> Iterator[SparkSession]:
    """The session of a run; one that the program started itself ends with the block.

    ``jvm`` is what :func:`publisher.engine.spark.jvm.start_jvm` gave for the same options.

    Raises:
        FatalError: Spark does not start.
        SettingsError: The program cannot work in the session; says what to set.
    """
    if is_remote():
        text = "the program cannot work through Spark Connect: unset SPARK_REMOTE and start again"
        raise SettingsError([SettingProblem((), text)])
    there = _session_there()
    if there is not None:
        yield _own_settings(there, options)
        return
    jvm = jvm or start_jvm(options)
    try:
        with _refused_settings():
            spark = _in_jvm(options, jvm) if jvm else _in_spark_submit(options)
        yield _checked(spark)
    finally:
        _close(jvm)


@contextmanager
def _refused_settings() -> Iterator[None]:
    """Raises what Spark says of settings while its JVM can still be asked for it.

    Raises:
        FatalError: Spark does not start with these settings.
    """
    try:
        yield
    except Py4JError as error:
        lines = redact_all(str(error)).splitlines()
        said = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
        raise FatalError(
            f"Spark does not start ({said}): correct [spark] of the job file, then start again"
        ) from None


def _session_there() -> SparkSession | None:
    return SparkSession._instantiatedSession


def _in_jvm(options: SparkOptions, jvm: Jvm) -> SparkSession:
    _use_python(options)
    port, secret = jvm.wait()
    os.environ.update(zip(_GATEWAY, (str(port), secret), strict=True))
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in _GATEWAY:
            del os.environ[name]
    with _interrupts_kept():
        return SparkSession(SparkContext(gateway=gateway, conf=_conf(conf_of(options))))


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Undoes pyspark's handler of Ctrl-C, which speaks to the JVM in the midst of another talk.

    Nothing is lost: whoever is interrupted ends the session, and with it the JVM and its jobs.
    """
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _in_spark_submit(options: SparkOptions) -> SparkSession:
    """In the JVM that ``spark-submit`` has made; its settings stand, except what the job file says."""
    _use_python(options)
    conf = SparkConf()
    wanted = conf_of(options)
    said = {**options.conf, **({"spark.master": options.master} if options.master else {})}
    for name, value in wanted.items():
        if name in said or not conf.contains(name):
            conf.set(name, value)
    return SparkSession(SparkContext(conf=conf))


def _conf(settings: dict[str, str]) -> SparkConf:
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    return conf


def _use_python(options: SparkOptions) -> None:
    """Workers run the driver's Python, unless the operator names another."""
    named = options.conf.get("spark.pyspark.python")
    if named:
        os.environ["PYSPARK_PYTHON"] = named
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _own_settings(there: SparkSession, options: SparkOptions) -> SparkSession:
    """A session of our own in the context that is there: its owner's settings stay as they are."""
    spark = _checked(there.newSession())
    for name, value in {**DEFAULTS, **options.conf}.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark


def _checked(spark: SparkSession) -> SparkSession:
    problems = []
    context = spark.sparkContext
    for what, found in (("PySpark", pyspark.__version__), ("Spark", spark.version)):
        if tuple(int(part) for part in found.split(".")[:2]) < _OLDEST:
            problems.append(f"{what} is {found}: use {'.'.join(map(str, _OLDEST))} or newer")
    if context.getConf().get("spark.speculation", "false") == "true":
        problems.append(
            "spark.speculation is on, and two copies of a task would do its work twice:"
            " set spark.speculation = false"
        )
    if problems:
        raise SettingsError([SettingProblem((), text) for text in problems])
    return spark


def _close(jvm: Jvm | None) -> None:
    there = _session_there()
    try:
        if there is not None:
            _leave_accumulators(there.sparkContext)
            # tasks that are still running (the program was interrupted) complain of the end
            there.sparkContext.setLogLevel("OFF")
            there.stop()
    finally:
        if jvm is not None:
            _forget_gateway()
            jvm.stop()


def _leave_accumulators(context: SparkContext) -> None:
    """Stops pyspark's accumulator server aside: it takes half a second to notice, and nobody waits."""
    server: Any = context._accumulatorServer
    context._accumulatorServer = None  # type: ignore[assignment]
    server.server_shutdown = True
    server.handle_error = lambda *_: None  # the JVM hangs up first
    threading.Thread(target=server.shutdown, daemon=True).start()


def _forget_gateway() -> None:
    """Lets pyspark start afresh: it keeps the gateway of the JVM that ends here."""
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()

"""The session: quiet, with the program's own settings, gone with the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from publisher.engine.spark import launch
from publisher.engine.spark.options import DEFAULTS, SparkOptions, conf_of
from publisher.engine.spark.session import check_session, spark_session
from publisher.errors import SettingsError
from tests.support.process_tree import descendants, is_running

PROGRAM = """
import os, signal, sys, time
from publisher.engine.spark.options import SparkOptions
from publisher.engine.spark.session import spark_session
with spark_session(SparkOptions(master="local[1]", conf={conf!r})) as spark:
    print(spark.range(0, 2, 1, 1).mapInArrow(lambda batches: batches, "id bigint").collect())
    try:
        spark.range(0, 2, 1, 1).mapInArrow(lambda batches: 1 / 0, "id bigint").collect()
    except Exception as error:
        print(type(error).__name__)
    print("ready", spark.conf.get("spark.sql.session.timeZone"), flush=True)
    time.sleep({sleep})
"""


_OF_SPARK = "WARNING: Using incubator modules: jdk.incubator.vector\n"
"""A line that Spark's launcher causes."""


@contextmanager
def start(
    *, sleep: float = 0, conf: dict[str, str] | None = None, program: str = PROGRAM
) -> Iterator[subprocess.Popen[str]]:
    """Starts a program, which is killed if the test fails: another test would find it running."""
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", program.format(sleep=sleep, conf=conf or {})]
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_ready(process: subprocess.Popen[str]) -> set[int]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready"):
            return descendants(process.pid)
    raise AssertionError(process.communicate()[1])


def test_a_setting_of_the_job_file_overrides_the_programs_own() -> None:
    conf = conf_of(SparkOptions(conf={"spark.driver.memory": "4g", "spark.ui.enabled": "true"}))
    assert conf["spark.driver.memory"] == "4g"
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.sql.session.timeZone"] == "UTC"


def test_nothing_else_is_printed_and_settings_are_in_the_arguments_of_no_process(
    tmp_path: Path,
) -> None:
    secret = 'pa55 "w\\ö#rd=:\U0001f511'
    conf = {
        "spark.hadoop.fs.s3a.secret.key": secret,
        "spark.driver.extraJavaOptions": "-Dkey.word='pa55 wo\\rd'",
    }
    program = PROGRAM.replace(
        "    time.sleep({sleep})",
        """    print(repr(spark.conf.get("spark.hadoop.fs.s3a.secret.key")))
    print(spark.sparkContext._jvm.java.lang.System.getProperty("key.word"), flush=True)
    sys.stdin.read()""",
    )
    path = tmp_path / "program.py"
    path.write_text(program.format(conf=conf))
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, str(path)], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline().removesuffix("\n") for _ in range(5)]
    started = descendants(process.pid)
    running = filter(is_running, started)
    arguments = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in running]
    out, err = process.communicate(timeout=120)
    assert (out, err.replace(_OF_SPARK, "")) == ("", "")
    assert process.returncode == 0
    assert lines == [
        "[Row(id=0), Row(id=1)]",
        "PythonException",  # of a task
        "ready UTC",
        repr(secret),
        "pa55 wo\\rd",
    ]
    assert len(started) >= 2  # the JVM and a worker
    assert any(b"SparkSubmit" in found for found in arguments)
    assert not [found for found in arguments if b"pa55" in found]


def test_settings_are_in_a_private_file_while_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int, str]] = []

    def note(**_: object) -> None:
        words = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        settings = Path(words[words.index("--properties-file") + 1])
        modes = settings.stat().st_mode & 0o777, settings.parent.stat().st_mode & 0o777
        seen.append((*modes, settings.read_text()))

    monkeypatch.setattr(launch, "launch_gateway", note)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    launch.launch({"spark.hadoop.key": "s e"})
    ((mode, mode_of_folder, text),) = seen
    assert (mode, mode_of_folder) == (0o600, 0o700)
    assert "spark.hadoop.key=s\\u0020e\n" in text
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ


@pytest.mark.long
def test_no_process_outlives_an_interrupted_program() -> None:
    with start(sleep=60) as process:
        started = wait_until_ready(process)
        assert len(started) >= 2  # the JVM, and the daemon of its workers
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    deadline = time.monotonic() + 10
    while any(map(is_running, started)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_running, started))


def test_the_session_has_the_programs_settings(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    ui = {"spark.ui.enabled": "true"}  # the session of the tests names a master
    assert {name: conf.get(name) for name in DEFAULTS} == {**DEFAULTS, **ui}


def test_an_active_session_is_used_and_left_as_it_was(spark: SparkSession) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    with spark_session(SparkOptions(conf={name: "77"})) as session:
        assert session.sparkContext is spark.sparkContext
        assert session.conf.get(name) == "77"
    assert spark.conf.get(name) == DEFAULTS[name]
    assert spark.range(3).count() == 3


def test_a_session_with_speculation_is_refused(spark: SparkSession) -> None:
    with start(conf={"spark.speculation": "true"}) as process:
        out, err = process.communicate(timeout=120)
    assert "set spark.speculation = false" in err
    assert out == ""


def test_a_session_that_is_too_old_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.2")
    with pytest.raises(SettingsError, match=r"PySpark is 4\.0\.2: use 4\.1 or newer"):
        check_session(spark)


def test_a_batch_of_long_values_is_cut_by_bytes(spark: SparkSession) -> None:
    def long_values(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pydict({"id": [number], "value": ["x" * 1_000_000]})

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"size": [batch.nbytes]})

    rows = (
        spark.range(0, 60, 1, 1)
        .mapInArrow(long_values, "id bigint, value string")
        .selectExpr("cast(id % 2 as int) as lane", "id", "value")
        .repartitionById(2, "lane")
        .sortWithinPartitions("id")
        .mapInArrow(sizes, "size bigint")
    ).collect()
    assert sum(row[0] for row in rows) > 60_000_000
    assert max(row[0] for row in rows) <= 10 * 1024 * 1024

"""Errors of tasks reach the driver as the program's own, with their text and exit code."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from publisher.engine.spark.task_errors import (
    EngineError,
    decode,
    decode_errors,
    encode,
    encode_errors,
)
from publisher.errors import (
    FatalError,
    InternalError,
    PublisherError,
    SettingProblem,
    SettingsError,
    UnreachableError,
)

KINDS = [FatalError, InternalError, UnreachableError]


@given(st.sampled_from(KINDS), st.text())
def test_any_message_survives_inside_any_text(kind: type[PublisherError], message: str) -> None:
    carried = RuntimeError(
        f"Traceback:\n  some line\n{encode(kind(message))}\n\tat java.lang {{}}\n"
    )
    found = decode(carried)
    assert type(found) is kind
    assert found.message == message


def test_a_problem_of_settings_survives_with_its_place() -> None:
    problem = SettingProblem(("sources", 1, "table"), "is wrong", line=7)
    found = decode(RuntimeError(str(encode(SettingsError([problem])))))
    assert isinstance(found, SettingsError)
    assert found.lines == ["[[sources]] 2 table: is wrong (line 7)"]


def test_a_full_disk_names_the_file_and_what_to_do() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/ledger/part-00000")
    found = decode(encode(full))
    assert isinstance(found, FatalError)
    assert "no space left on /ledger/part-00000: free space" in found.message


def test_an_error_that_is_not_ours_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="other"), decode_errors():
        raise ValueError("other")


def failing(
    error: BaseException,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            yield from batches
            raise error

    return task


def run(spark: SparkSession, error: BaseException) -> None:
    with decode_errors():
        spark.range(0, 2, 1, 2).mapInArrow(failing(error), "id bigint").collect()


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_a_task_is_raised_on_the_driver(
    spark: SparkSession, kind: type[PublisherError]
) -> None:
    with pytest.raises(kind, match="row 4711 «ä»") as caught:
        run(spark, kind("row 4711 «ä»"))
    assert caught.value.exit_code == kind.exit_code


def test_a_worker_out_of_memory_says_what_to_do(spark: SparkSession) -> None:
    with pytest.raises(FatalError, match="use fewer cores or more memory"):
        run(spark, MemoryError())


def test_a_killed_worker_says_what_to_do(spark: SparkSession) -> None:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    with pytest.raises(FatalError, match="Python worker was killed"), decode_errors():
        spark.range(0, 1, 1, 1).mapInArrow(task, "id bigint").collect()


def test_an_error_of_the_jvm_can_be_read_when_the_jvm_is_gone(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    with pytest.raises(EngineError, match="no number"), decode_errors():
        jvm.java.lang.Integer.parseInt("no number")

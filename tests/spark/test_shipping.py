"""Executors that are processes of their own run the package that the driver sends them."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from publisher.engine.spark.options import is_local
from publisher.engine.spark.package_shipping import package_zip

PROGRAM = """
import os, sys
from pathlib import Path
from publisher.errors import PublisherError
from publisher.engine.spark.options import SparkOptions
from publisher.engine.spark.session import spark_session
from publisher.engine.spark.package_shipping import probe, ship

journal, foreign = Path(sys.argv[1]), Path(sys.argv[2])
options = SparkOptions(
    master="local-cluster[2,1,1024]",
    conf={"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"},  # a short run
)
with spark_session(options) as spark:
    digest = ship(spark)
    print("executors", probe(spark, digest, journal=journal))
    print("left", sorted(os.listdir(journal)))
    for wrong in ("0000", digest):
        try:
            print("executors", probe(spark, wrong, journal=foreign if wrong == digest else journal))
        except PublisherError as error:
            print(type(error).__name__, error)
"""


def test_the_zip_is_the_same_bytes_each_time_and_holds_the_package() -> None:
    content = package_zip()
    assert content == package_zip()
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert "publisher/model/change.py" in names
    assert "publisher/engine/spark/package_shipping.py" in names
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
    ],
)
def test_only_executors_in_other_processes_need_the_package(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_executors_run_the_shipped_package_and_see_the_journal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "journal"), str(tmp_path / "other")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == ["executors 2", "left []"], done.stdout + done.stderr
    assert lines[2].startswith("FatalError executor ")
    assert "not the one that was sent" in lines[2]
    assert lines[3] == "executors 2"
    assert done.stderr == ""

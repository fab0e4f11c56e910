"""The package that the driver sends to executors in other processes (see also ``test_cluster``)."""

from __future__ import annotations

import io
import zipfile

import pytest

from publisher.engine.spark.options import is_local
from publisher.engine.spark.package_shipping import package_zip


def test_the_zip_is_the_same_bytes_each_time_and_holds_the_package() -> None:
    content = package_zip()
    assert content == package_zip()
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert "publisher/model/change.py" in names
    assert "publisher/engine/spark/package_shipping.py" in names
    assert "publisher/database/queries/postgresql.sql" in names
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

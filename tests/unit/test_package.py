"""The wheel and the source distribution: what they hold, and what runs without extras."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple

import pytest

from publisher import __version__

ROOT = Path(__file__).parents[2]

WITHOUT_EXTRAS = """
import sys
for name in ("confluent_kafka", "psycopg", "pymysql"):
    sys.modules[name] = None  # importing it fails
sys.setswitchinterval(1e-5)  # threads that import at the same time meet
sys.path.insert(0, sys.argv.pop(1))
from publisher.cli.main import main
import publisher
assert publisher.__file__.startswith(sys.path[0]), publisher.__file__
main()
"""

LOG = (
    "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,"
    "old_value,new_value\n1,idu=1,N,1,2026-01-01 00:00:00,x,usr,fname,,Jack\n"
)


class Built(NamedTuple):
    wheel: Path
    source: Path
    unpacked: Path
    """The contents of the wheel, as they are installed."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    target = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,), (source,) = target.glob("*.whl"), target.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target / "unpacked")
    return Built(wheel, source, target / "unpacked")


def run_from_wheel(
    built: Built, directory: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EXTRAS, str(built.unpacked), *arguments]
    return subprocess.run(
        command, check=False, cwd=directory, capture_output=True, text=True, timeout=120
    )


def test_wheel_holds_the_program_with_its_types_schemas_and_job_files(built: Built) -> None:
    names = zipfile.ZipFile(built.wheel).namelist()
    for folder in ("conf", "schemas"):
        expected = {f"publisher/{folder}/{path.name}" for path in (ROOT / folder).iterdir()}
        assert expected <= set(names)
    assert "publisher/py.typed" in names
    assert {name.split("/")[0] for name in names} == {
        "publisher",
        f"xds_publisher-{__version__}.dist-info",
    }


def test_metadata_describe_the_project_and_its_extras(built: Built) -> None:
    path = built.unpacked / f"xds_publisher-{__version__}.dist-info" / "METADATA"
    metadata = Parser().parsestr(path.read_text("utf-8"))
    assert {"kafka", "postgresql", "mariadb", "all"} <= set(metadata.get_all("Provides-Extra", []))
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text("utf-8")
    assert "://" not in str(metadata.items())


def test_source_distribution_holds_what_a_build_and_the_tests_need(built: Built) -> None:
    with tarfile.open(built.source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "run", ".requirements.txt", "schemas/xds.xsd"} <= names
    assert {"conf/demo.toml", "publisher/py.typed", "tests/unit/test_package.py"} <= names


def test_files_are_replayed_without_extras(built: Built, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    result = run_from_wheel(built, tmp_path, "replay", "log.csv", "--to", "out")
    assert (result.returncode, result.stderr) == (0, "")
    assert "1 read = 1 published" in result.stdout
    result = run_from_wheel(built, tmp_path, "validate", "out/part-00000.xds")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("form", ["option", "job file"])
def test_missing_extra_for_kafka_is_named(built: Built, tmp_path: Path, form: str) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    if form == "option":
        arguments = ["replay", "log.csv", "--to", "kafka://localhost:9092/xds"]
    else:
        (tmp_path / "job.toml").write_text(
            '[job]\nname = "a"\n[[sources]]\nname = "hr"\nformat = "event-log"\nsnapshots = ["log.csv"]\n'
            '[dispatch]\nto = "kafka"\nbootstrap = "localhost:9092"\ntopic = "xds"\n'
        )
        arguments = ["publish", "-c", "job.toml"]
    result = run_from_wheel(built, tmp_path, *arguments)
    assert result.returncode == 2
    assert "confluent-kafka is missing: install xds-publisher[kafka]" in result.stderr


@pytest.mark.parametrize(("kind", "package"), [("postgresql", "psycopg"), ("mariadb", "PyMySQL")])
def test_missing_extra_of_a_database_is_named(
    built: Built, tmp_path: Path, kind: str, package: str
) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "job.toml").write_text(f'[database]\nurl = "{kind}://a@localhost/hr"\n')
    result = run_from_wheel(built, tmp_path, "replay", "log.csv", "--to", "out", "-c", "job.toml")
    assert result.returncode == 2
    assert f"{package} is missing: install xds-publisher[{kind}]" in result.stderr


@pytest.mark.parametrize(("kind", "package"), [("postgresql", "psycopg"), ("mariadb", "PyMySQL")])
def test_publishing_names_the_missing_extra_of_the_database_that_it_reads(
    built: Built, tmp_path: Path, kind: str, package: str
) -> None:
    (tmp_path / "job.toml").write_text(
        f'[job]\nname = "a"\n[database]\nurl = "{kind}://a@localhost/hr"\n[[sources]]\nname = "hr"\n'
        'format = "event-log"\ntable = "indirect_process"\n[dispatch]\nto = "files"\npath = "out"\n'
    )
    result = run_from_wheel(built, tmp_path, "publish", "-c", "job.toml")
    assert result.returncode == 2
    assert f"{package} is missing: install xds-publisher[{kind}]" in result.stderr
    assert "Traceback" not in result.stderr

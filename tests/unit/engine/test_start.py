"""The engine that a run gets: by its setting, by what surrounds the program, by the size of its input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.engine.auto import KEEP_SECONDS, SMALL, AutoEngine
from publisher.engine.contract import EngineName, InputSize
from publisher.engine.local import LocalEngine
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.spark.options import SparkOptions
from publisher.engine.start import start_engine
from publisher.model.engine_use import EngineUse
from tests.support.event_log_files import event, write

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "options", "kind", "reason"),
    [
        ("local", SparkOptions(master="yarn"), LocalEngine, "set by engine"),
        ("spark", SparkOptions(), SparkEngine, "set by engine"),
        ("auto", SparkOptions(master="local[2]"), SparkEngine, "[spark] master is set"),
        ("auto", SparkOptions(conf={"spark.master": "yarn"}), SparkEngine, "[spark] master is set"),
        ("auto", SparkOptions(conf={"spark.ui.port": "1"}), AutoEngine, "no input yet"),
    ],
)
def test_setting_and_master_decide(
    name: EngineName, options: SparkOptions, kind: type, reason: str
) -> None:
    with start_engine(name, options) as engine:
        assert type(engine) is kind
        assert engine.use.reason == reason


def test_in_spark_submit_it_is_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert start_engine("auto", SparkOptions()).use.reason == "spark-submit started the program"
    assert start_engine("local", SparkOptions()).use.name == "local"


@pytest.mark.parametrize(
    ("size", "name", "reason"),
    [
        (InputSize(), "local", "small input, 0.00 MB of files"),
        (InputSize(SMALL.rows, 0), "local", f"small input, {SMALL.rows:,} rows of tables"),
        (InputSize(0, SMALL.bytes), "local", f"small input, {SMALL.bytes / 1e6:,.2f} MB of files"),
        (
            InputSize(SMALL.rows + 1, 1_000_000),
            "spark",
            f"large input, {SMALL.rows + 1:,} rows of tables and 1.00 MB of files",
        ),
        (InputSize(1, SMALL.bytes + 1), "spark", "large input, 1 rows of tables and "),
    ],
)
def test_size_decides(size: InputSize, name: str, reason: str) -> None:
    with AutoEngine(SparkOptions()) as engine:
        engine.expect(lambda: size)
        assert engine.use.name == name
        assert engine.use.reason.startswith(reason)
        engine.expect(InputSize)  # the next run is small again
        assert engine.use.name == "local"


def test_large_input_stays_where_spark_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "publisher.engine.auto.missing_for_spark", lambda: "no Java runtime was found"
    )
    with AutoEngine(SparkOptions()) as engine:
        engine.expect(lambda: InputSize(SMALL.rows + 1, 0))
        rows = f"{SMALL.rows + 1:,} rows of tables"
        assert engine.use == EngineUse("local", f"no Java runtime was found, large input, {rows}")


def test_spark_rests_ten_minutes_after_its_last_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[SparkEngine] = []
    monkeypatch.setattr(SparkEngine, "is_started", True)

    def note_stop(engine: SparkEngine) -> None:
        stopped.append(engine)

    monkeypatch.setattr(SparkEngine, "stop", note_stop)
    seconds = 3600.0
    with AutoEngine(SparkOptions(), clock=lambda: seconds) as engine:
        engine.expect(lambda: InputSize(SMALL.rows + 1, 0))
        engine.rest()  # the run has just ended
        seconds += KEEP_SECONDS - 1
        engine.expect(InputSize)
        engine.rest()
        assert not stopped
        seconds += 1
        engine.rest()
        assert len(stopped) == 1


@pytest.mark.parametrize("module", ["publisher.engine.start", "publisher.config.job_file"])
def test_start_loads_no_library_of_rows(module: str) -> None:
    """They take a fifth of a second, and most polls find nothing to read."""
    code = f"import sys, {module}; print(*{{'pyarrow', 'numpy', 'pyspark'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert not done.stdout.strip()


UNGUARDED = """
import sys
from pathlib import Path
from dataclasses import replace
from publisher.config.job_file import load
from publisher.engine.contract import InputSize
from publisher.engine.local import LocalEngine
from publisher.runs.replay import replay

print("begins")
settings = load(Path("job.toml"))
report = replay(
    settings, [Path("log.jsonl")], "out", engine=LocalEngine(one_process=InputSize(rows=0))
)
print(report.documents)
"""


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("[source]\n")
    write(
        tmp_path / "log.jsonl", [event(number, table_key=f"idu={number}") for number in range(1, 9)]
    )
    (tmp_path / "script.py").write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, "script.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["begins", "8"]


OTHERS = ("pyspark", "py4j", "pandas", "publisher.formats.linkexpress")
"""Modules that a small replay of an event log does not need."""
REPLAY = f"""
import sys
from publisher.cli.main import main
sys.argv.insert(1, "replay")
try:
    main()
except SystemExit:
    print(sorted(name for name in sys.modules if name in {OTHERS}))
"""


@pytest.mark.parametrize("options", [[], ["--engine", "local"]])
def test_a_small_replay_imports_only_modules_that_it_needs(
    tmp_path: Path, options: list[str]
) -> None:
    log = write(tmp_path / "log.jsonl", [event(number) for number in range(1, 30)])
    words = [str(log), "--to", str(tmp_path / "out"), "--json", *options]
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    report, _, modules = done.stdout.rpartition("}\n")
    assert modules == "[]\n"
    assert json.loads(report + "}")["engine"]["name"] == "local"


def test_a_replay_has_the_same_identity_on_each_engine(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [event(number) for number in range(1, 30)])
    job = tmp_path / "job.toml"
    states = []
    for setting in ("", '[run]\nengine = "local"\n', '[run]\nengine = "spark"\n'):
        job.write_text(setting)
        words = ["replay", str(log), "--to", str(tmp_path / "out"), "-c", str(job), "--json"]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.stderr
        report = json.loads(done.stdout)
        states.append((report["state"], report["engine"] and report["engine"]["name"]))
    assert states == [
        ("published", "local"),
        ("already published", None),
        ("already published", None),
    ]

"""The command line without Spark: exit codes, what is printed where, how errors look."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from publisher import __version__
from publisher.cli.main import cli
from publisher.console import printable
from publisher.formats.files import file_splits
from publisher.formats.registry import FORMATS
from publisher.reports import status

LOG = """\
record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,new_value
1,idu=1,N,1,2026-01-01 00:00:00,anna,usr,fname,,Jack
2,idu=2,S,1,2026-01-01 00:00:00,anna,usr,fname,,Jill
3,idu=3,N,9,2026-01-01 00:00:00,anna,usr,fname,,Joe
"""
DOCUMENT = (
    '<nds dtdversion="2.0"><input><delete class-name="usr">'
    "<association>idu=1,table=usr</association></delete></input></nds>\n"
)
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the program in a directory with an event log and a document."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDS_DEBUG", raising=False)
    Path("log.csv").write_text(LOG, "utf-8")
    Path("good.xds").write_text(DOCUMENT, "utf-8")
    Path("bad.xds").write_text("<nds/>\n" + DOCUMENT, "utf-8")

    def invoke(*args: str) -> Result:
        return CliRunner().invoke(cli, args)

    return invoke


def program(*args: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The program as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "publisher.cli", *args],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        cwd=directory,
    )


class TestStart:
    def test_help_names_every_command(self, run: Run) -> None:
        result = run("--help")
        assert result.exit_code == 0
        for name in ("publish", "replay", "dispatch", "inspect", "explain", "validate", "check"):
            assert f"  {name} " in result.output

    def test_version(self, run: Run) -> None:
        assert run("--version").output == f"xds-publisher, version {__version__}\n"

    @pytest.mark.parametrize("args", [("--help",), ("replay", "--help"), ("validate", "good.xds")])
    def test_loads_no_spark_and_nothing_slow_for_help(
        self, run: Run, args: tuple[str, ...]
    ) -> None:
        asked = (
            "import sys\nfrom publisher.cli.main import cli\n"
            f"try: cli({list(args)!r})\nexcept SystemExit: pass\n"
            "print('loaded', *sorted({name.partition('.')[0] for name in sys.modules}))"
        )
        done = subprocess.run(
            [sys.executable, "-c", asked],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        )
        loaded = done.stdout.splitlines()[-1].split()
        assert loaded[0] == "loaded"
        assert not {"pyspark", "py4j"} & set(loaded)
        if "--help" in args:
            assert not {"pyarrow", "pydantic", "sqlalchemy", "lxml", "rich", "numpy"} & set(loaded)

    def test_help_is_there_at_once(self) -> None:
        def seconds() -> float:
            """Of the processor: other tests may run beside this one."""
            start = os.times()
            assert program("--help").returncode == 0
            end = os.times()
            return sum(end[2:4]) - sum(start[2:4])

        assert min(seconds() for _ in range(3)) < 0.2


class TestUsage:
    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["publsh"], "no such command 'publsh'"),
            (["replay", "log.csv"], "missing option '--to'"),
            (
                ["ddl", "--database", "x", "--table", "usr", "--style", "per-row"],
                "error: --database: is not a URL",
            ),
            (["replay", "--to", "out"], "missing argument 'SNAPSHOT...'"),
            (["replay", "log.csv", "--to", "kafka://h/t"], "'h' is not a broker: write HOST:PORT"),
            (["replay", "log.csv", "--to", "s3://bucket"], "is not a directory"),
            (
                ["dispatch", "j", "--to", "kafka://h:1"],
                "incomplete Kafka target: write kafka://HOST:PORT",
            ),
            (["replay", "log.csv", "--to", "out", "--now", "noon"], "'noon' is not a time"),
            (["replay", "log.csv", "--to", "out", "--lanes", "many"], "not a valid integer"),
            (["replay", "log.csv", "--to", "out", "--follow"], "no such option"),
            (["publish", "-c", "j.toml", "--follow", "--trace", "8"], "8 is not in the range"),
            (["publish", "-c", "j.toml", "--follow", "--log", "xml"], "'xml' is not one of"),
            (["status"], "missing option '-c'"),
            (
                ["replay", "log.csv", "--to", "out", "--lanes", "0"],
                "error: --lanes: should be greater",
            ),
            (
                ["replay", "log.csv", "--to", "out", "--status", "n"],
                "error: --status: should be 'N' or",
            ),
            (["replay", "log.csv", "--to", "out", "--format", "csv"], "error: --format: should be"),
            (
                ["replay", "log.csv", "--to", "out", "--database", "x"],
                "error: --database: is not a URL",
            ),
            (["replay", "none.csv", "--to", "out"], "error: none.csv does not exist"),
            (
                ["replay", "log.csv", "--to", "out", "-c", "none.toml"],
                "error: none.toml: No such file",
            ),
            (["publish"], "missing option '-c'"),
            (["check", "-c", "none.toml"], "error: none.toml: No such file"),
            (["explain", "."], "name a ledger (or a job file with -c), then a position or a key"),
            (["explain", ".", "--document", "x"], "write TOPIC:PARTITION:OFFSET or FILE:LINE"),
            (["explain", "--document", "out/x.xds:1"], "out/x.xds is not a part file"),
            (["explain", "--document", "xds:0:1"], "name the ledger (or a job file with -c)"),
            (["explain", ".", "4711"], "error: . has no ledger: give"),
            (["dispatch", ".", "--to", "out"], "error: . has no ledger: give"),
            (["validate", "--profile", "loose", "good.xds"], "is not one of 'strict', 'lenient'"),
            (["inspect", "none.csv"], "error: none.csv does not exist"),
        ],
    )
    def test_is_refused_with_code_2_and_a_reason(
        self, run: Run, args: list[str], message: str
    ) -> None:
        result = run(*args)
        assert message in result.stderr
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert not Path("out").exists()

    def test_every_problem_of_a_job_file_is_a_line(self, run: Run) -> None:
        Path("job.toml").write_text("[job]\nnam = 1\n[run]\nlanes = 0\n", "utf-8")
        result = run("publish", "-c", "job.toml")
        assert result.exit_code == 2
        assert result.stderr.splitlines() == [
            "error: [job] nam: unknown key, did you mean name? (line 2)",
            "error: [run] lanes: should be greater than or equal to 1, not 0 (line 4)",
            'error: [source]: nothing to read; set snapshots = ["FILE"] or table = "NAME"',
            (
                'error: [dispatch]: names no sink; set path = "DIRECTORY" for files, or to = "kafka" '
                'with bootstrap = "HOST:PORT"'
            ),
        ]

    def test_a_job_without_source_and_sink_cannot_be_published(self, run: Run) -> None:
        Path("job.toml").write_text("", "utf-8")
        for command in ("publish", "check"):
            result = run(command, "-c", "job.toml")
            assert result.exit_code == 2
            assert "[dispatch]: names no sink" in result.stderr


class TestErrors:
    def test_a_trace_is_shown_on_request_only(self, run: Run) -> None:
        assert "Traceback" not in run("explain", ".", "1").stderr
        shown = run("--debug", "explain", ".", "1")
        assert "Traceback" in shown.stderr
        assert shown.stderr.splitlines()[-1].startswith("error: . has no ledger: give")
        assert shown.exit_code == 2

    def test_what_the_system_refuses_is_said_plainly(self, run: Run) -> None:
        result = run("replay", "log.csv", "--to", "/proc/none/out")
        assert result.exit_code == 1
        assert result.stderr.startswith("error: /proc/none")
        assert "check the path, then start the command again" in result.stderr

    def test_what_nobody_expected_asks_for_a_report(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError("division by zero\nand more")

        monkeypatch.setattr("publisher.reports.explain.explain", broken)
        result = run("explain", ".", "1")
        assert result.exit_code == 1
        assert result.stderr.splitlines() == [
            "error: ZeroDivisionError: division by zero",
            (
                "error: unexpected error: set XDS_DEBUG=1 (or put --debug before the command) and report "
                "the output"
            ),
        ]
        monkeypatch.setenv("XDS_DEBUG", "1")
        assert "Traceback" in run("explain", ".", "1").stderr

    def test_a_database_out_of_reach_is_code_5(self, run: Run) -> None:
        url = "postgresql://idm:Tr0ub4dor@127.0.0.1:9/hr?connect_timeout=1"
        Path("job.toml").write_text(f'[database]\nurl = "{url}"\nretries = 0\n', "utf-8")
        result = run("inspect", "log.csv", "-c", "job.toml")
        assert result.exit_code == 5
        assert "cannot be reached" in result.stderr
        assert "Tr0ub4dor" not in result.output

    def test_a_closed_pipe_ends_quietly(self, tmp_path: Path) -> None:
        lines = [f"{i},idu={i},N,1,2026-01-01 00:00:00,,usr,fname,,Jack\n" for i in range(4, 5000)]
        (tmp_path / "log.csv").write_text(LOG + "".join(lines), "utf-8")
        command = f"{sys.executable} -m publisher.cli inspect log.csv | head -n 1"
        done = subprocess.run(
            command,
            shell=True,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        )
        assert len(done.stdout.splitlines()) == 1
        assert done.stderr == ""


class TestInspect:
    @pytest.mark.parametrize("name", ["empty.csv", "empty.jsonl"])
    def test_says_that_a_file_has_no_records(self, run: Run, name: str) -> None:
        Path(name).write_text("")
        result = run("inspect", name)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"note: no records in {name}\n"
        assert run("inspect", "-q", name).stderr == ""

    def test_prints_one_json_line_for_each_record(self, run: Run) -> None:
        result = run("inspect", "log.csv", "--schema", "indirect")
        assert result.exit_code == 0
        assert result.stderr == ""
        by_position = {
            line["position"]: line for line in map(json.loads, result.stdout.splitlines())
        }
        assert sorted(by_position) == ["1", "2", "3"]
        assert by_position["1"]["schema"] == "indirect"
        assert by_position["1"]["columns"] == [{"name": "fname", "new": "Jack"}]
        assert by_position["2"]["reason"] == "status"
        assert by_position["3"]["outcome"] == "rejected"

    def test_options_win_over_the_job_file(self, run: Run) -> None:
        Path("job.toml").write_text('[source]\nschema = "a"\n', "utf-8")
        lines = run(
            "inspect", "log.csv", "-c", "job.toml", "--status", "any", "--schema", "b"
        ).stdout
        assert sum('"schema": "b"' in line for line in lines.splitlines()) == 2


class TestValidate:
    def test_good_documents_are_code_0_and_silent(self, run: Run) -> None:
        result = run("validate", "good.xds")
        assert (result.exit_code, result.output) == (0, "")

    def test_findings_are_code_3_one_line_each(self, run: Run) -> None:
        result = run("validate", "bad.xds", "good.xds")
        assert result.exit_code == 3
        assert result.stdout.startswith("bad.xds:1: ")
        assert result.stderr.startswith("error: ")
        found = [
            json.loads(line) for line in run("validate", "--json", "bad.xds").stdout.splitlines()
        ]
        assert {finding["file"] for finding in found} == {"bad.xds"}


class TestCheck:
    JOB = """
        [source]
        snapshots = ["log.csv"]
        [database]
        url = "sqlite:///hr.db"
        retries = 0
        [tables.usr]
        key = ["idu"]
        [dispatch]
        path = "out"
        """

    def test_a_job_that_can_run_is_code_0_and_nothing_is_written(
        self, run: Run, tmp_path: Path
    ) -> None:
        Path("job.toml").write_text(self.JOB, "utf-8")
        with sqlite3.connect("hr.db") as database:
            database.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
        database.close()
        before = sorted(tmp_path.rglob("*"))
        result = run("check", "-c", "job.toml")
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        assert all(line.startswith("ok ") for line in result.stdout.splitlines())
        findings = json.loads(run("check", "-c", "job.toml", "--json").stdout)
        assert {"settings", "database", "sink", "ledger"} <= {
            finding["what"] for finding in findings
        }
        assert sorted(tmp_path.rglob("*")) == before

    def test_all_that_fails_is_listed_with_code_3(self, run: Run) -> None:
        Path("job.toml").write_text(self.JOB, "utf-8")
        Path("log.csv").unlink()
        result = run("check", "-c", "job.toml")
        assert result.exit_code == 3
        failed = [line for line in result.stdout.splitlines() if line.startswith("FAILED")]
        assert any("log.csv does not exist" in line for line in failed)
        assert any("hr.db" in line for line in failed)
        assert result.stderr.startswith("error: ")

    def test_what_the_system_refuses_says_what_to_do(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied", "log.csv")

        Path("job.toml").write_text(self.JOB, "utf-8")
        monkeypatch.setattr(file_splits, "splits", refuse)
        monkeypatch.setattr(status, "new_files", refuse)
        message = "log.csv: Permission denied: give this user permission for it, then start the command again"
        assert f"FAILED  source event-log: {message}" in run("check", "-c", "job.toml").stdout
        assert message in run("status", "-c", "job.toml").output


class TestOutput:
    def test_nothing_in_a_value_can_drive_a_terminal(self) -> None:
        assert printable("a\x1b[2J\u202eb\n") == "a\\x1b[2J\\u202eb\\n"
        assert printable("Jürgen 王") == "Jürgen 王"


@pytest.mark.parametrize(("command", "more"), [("replay", []), ("inspect", ["table-queue"])])
def test_the_help_of_format_names_every_format(command: str, more: list[str], run: Run) -> None:
    option = next(param for param in cli.commands[command].params if param.name == "format_")
    assert isinstance(option, click.Option)
    message = (option.help or "").removeprefix("Source format: ").partition(", for ")[0]
    named = message.removesuffix(".").replace("; or ", ", ").split(", ")
    assert named == [*FORMATS, *more]
    for name in named:
        assert "--format" not in run(*ARGUMENTS[command], "--format", name).stderr
    assert "--format: should be" in run(*ARGUMENTS[command], "--format", "other").stderr


ARGUMENTS = {"replay": ["replay", "none.csv", "--to", "out"], "inspect": ["inspect", "none.csv"]}

"""Spark's own cluster: the commands of the guide run on it, and what runs them is killed in between.

Each trial publishes the same job, and kills an executor or a whole node at one moment.  The files or
the committed records must be those of a run on one machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.release.packages import ReleaseError, run
from tests.services.kafka import cluster as kafka_cluster
from tests.services.kafka import quiet_port
from tests.services.topics import Record, Topics
from tests.support.documentation import blocks, shown_commands, text_of

PAGE = "how-to/cluster.md"
_HOST, _PORT, _JOB = "spark.example", "7077", "JOB.toml"
_PYTHON, _WORK = "/opt/python/bin/python3", "/var/tmp/spark"
_FILES, _EVENTS, _OBJECTS = 6, 20_000, 10_000
_NAME = "moved"
_WORKER = {"SPARK_WORKER_CORES": "1", "SPARK_WORKER_MEMORY": "1g", "SPARK_WORKER_WEBUI_PORT": "0"}
_SECONDS = 600
_LANE = ".xds-publisher/**/lane-*"
"""Files of lanes whose planning has begun."""
_PLANNED, _SENT = ".xds-publisher/*/*/manifest.json", ".xds-publisher/*/*/sent"
_COLUMNS = (
    "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,"
    "old_value,new_value\n"
)
_JOB_FILE = """
[job]
name = "{name}"
[[sources]]
name = "hr"
format = "event-log"
snapshots = ["../log"]
[run]
lanes = 6
{sink}
{spark}
"""


@dataclass(frozen=True, slots=True)
class Guide:
    """The commands and settings of the page, for a cluster on this machine."""

    settings: str
    master: str
    worker: str
    check: str
    publish: str
    submit: str

    @classmethod
    def read(cls, python: Path) -> Guide:
        """Raises ``ReleaseError`` if the page shows other commands than expected."""
        text = text_of(PAGE)
        lines = [command.line for command in shown_commands(text)]
        (settings,) = blocks(text, "toml")
        if len(lines) != 5:
            raise ReleaseError(f"docs/{PAGE} shows {len(lines)} commands: adapt this check")
        port = str(quiet_port())
        here = {_HOST: "127.0.0.1", _PORT: port, _JOB: "job.toml", _PYTHON: str(python)}
        for shown in (*here, _WORK):
            if not any(shown in line for line in (*lines, settings)):
                raise ReleaseError(f"docs/{PAGE} does not show {shown}: adapt this check")
        for shown, real in here.items():
            lines = [line.replace(shown, real) for line in lines]
            settings = settings.replace(shown, real)
        return cls(settings, *lines)


@dataclass(frozen=True, slots=True)
class Node:
    """A worker of the cluster."""

    process: subprocess.Popen[bytes]

    def kill_executor(self) -> bool:
        """Kills its executor (SIGKILL) if a task runs there; returns whether it did."""
        executors = [pid for pid in _children(self.process.pid) if _runs_task(pid)]
        _kill(executors)
        return bool(executors)

    def kill(self) -> bool:
        """Kills the worker, too."""
        if not self.kill_executor():
            return False
        _kill([self.process.pid])
        return True


@dataclass(frozen=True, slots=True)
class Site:
    """Where the trials run: installed programs, the guide, and a directory that all nodes share."""

    programs: Path
    guide: Guide
    shared: Path

    def start(self, line: str, directory: Path) -> subprocess.Popen[bytes]:
        """Starts a command of the guide in a shell, as a person would."""
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with (directory / "output.log").open("ab") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", f"exec {line}"],
                cwd=directory,
                env={**kept, **_WORKER, "SPARK_MASTER_WEBUI_PORT": "0", "PATH": path},
                stdout=log,
                stderr=log,
            )

    def job(self, name: str, sink: str, spark: str = "") -> Path:
        """Writes the job file of a trial; returns its directory."""
        directory = self.shared / name
        directory.mkdir()
        text = _JOB_FILE.format(name=_NAME, sink=sink, spark=spark)
        (directory / "job.toml").write_text(text, "utf-8")
        return directory

    def publish_here(self, name: str, sink: str) -> Path:
        """Publishes the job on this machine alone; returns its directory."""
        directory = self.job(name, sink)
        run([self.programs / "xds-publisher", "publish", "-c", "job.toml"], directory)
        return directory


@dataclass(frozen=True, slots=True)
class Trial:
    """What is killed, and when."""

    name: str
    moment: Callable[[Path], bool]
    """Whether the moment has come, by the directory of the job."""
    end: str
    """File below the directory that appears when the moment has passed."""
    kill: Callable[[Node], bool] | None
    """``None``: the program itself is killed, and started again."""
    submits: bool = True
    """Started by ``spark-submit``."""


def check_cluster(programs: Path, work: Path) -> None:
    """Publishes on a cluster to files and to Kafka, while executors, a node and the program are killed.

    Raises:
        ReleaseError: A command failed, or a trial gave other documents than one machine.
    """
    shared = work / "shared"
    shared.mkdir()
    _write_log(shared / "log")
    site = Site(programs, Guide.read(_without_program(programs, work / "nodes")), shared)
    with kafka_cluster() as brokers, _nodes(site) as nodes:
        _check_files(site, nodes)
        _check_kafka(site, nodes, brokers.topics)


def _check_files(site: Site, nodes: Sequence[Node]) -> None:
    sink = '[dispatch]\nto = "files"\npath = "published"'
    expected = _published(site.publish_here("alone", sink))
    _check_executors(site, sink)
    for trial in (
        Trial("reading", lambda _: True, _LANE, Node.kill_executor),
        Trial("planning", lambda job: any(job.glob(_LANE)), _PLANNED, Node.kill_executor, False),
    ):
        directory = _run_trial(site, nodes, trial, sink)
        if _published(directory) != expected:
            raise ReleaseError(f"{directory}: other files than {site.shared / 'alone'}")


def _check_kafka(site: Site, nodes: Sequence[Node], topics: Topics) -> None:
    sink, topic = _kafka(topics, "alone")
    site.publish_here("alone-kafka", sink)
    expected = _by_object(topics.read(topic))
    for name, share, kill, submits in (
        ("sending", 0.0, Node.kill_executor, True),
        ("sending-half", 0.5, Node.kill_executor, False),
        ("sending-program", 0.3, None, True),
        ("sending-node", 0.2, Node.kill, True),
    ):
        sink, topic = _kafka(topics, name)
        sent = partial(_has_sent, topics, topic, int(share * _FILES * _EVENTS))
        _run_trial(site, nodes, Trial(name, sent, _SENT, kill, submits), sink)
        if _by_object(topics.read(topic)) != expected:
            raise ReleaseError(
                f"{site.shared / name}: other records in {topic} than on one machine"
            )


def _check_executors(site: Site, sink: str) -> None:
    directory = site.job("check", sink, site.guide.settings)
    _end(site.start(site.guide.check, directory), directory)
    shown = (directory / "output.log").read_text("utf-8")
    if "2 executor(s) run this package and see" not in shown:
        raise ReleaseError(f"{site.guide.check} does not prove both executors:\n{shown}")


def _run_trial(site: Site, nodes: Sequence[Node], trial: Trial, sink: str) -> Path:
    """Runs a trial; returns the directory of its job."""
    directory = site.job(trial.name, sink, site.guide.settings)
    line = site.guide.submit if trial.submits else site.guide.publish
    process = site.start(line, directory)
    try:
        _wait(f"{trial.name}: the moment", process, lambda: trial.moment(directory))
        if trial.kill is None:
            _kill([process.pid, *_descendants(process.pid)])
            process.wait()
        else:
            _wait(f"{trial.name}: a task", process, partial(_any_killed, nodes, trial.kill))
        if any(directory.glob(trial.end)):
            raise ReleaseError(f"{trial.name}: killed too late: raise the number of events")
    except ReleaseError as error:
        process.kill()
        raise ReleaseError(f"{error}\n{_output(directory)}") from error
    if trial.kill is None:
        process = site.start(line, directory)
    _end(process, directory)
    return directory


def _any_killed(nodes: Sequence[Node], kill: Callable[[Node], bool]) -> bool:
    return any(map(kill, nodes))


def _end(process: subprocess.Popen[bytes], directory: Path) -> None:
    try:
        code = process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code:
        raise ReleaseError(f"{directory}: exit code {code}\n{_output(directory)}")


def _output(directory: Path) -> str:
    return (directory / "output.log").read_text("utf-8", "replace")


def _has_sent(topics: Topics, topic: str, documents: int, _: Path) -> bool:
    """Whether the topic has more records, committed or not."""
    return sum(topics.ends(topic).values()) > documents


@contextmanager
def _nodes(site: Site) -> Iterator[list[Node]]:
    """Starts a master and two workers, and ends them."""
    with ExitStack() as stack:

        def start(line: str, name: str) -> subprocess.Popen[bytes]:
            directory = site.shared.parent / name
            directory.mkdir()
            process = site.start(line.replace(_WORK, str(directory)), directory)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        start(site.guide.master, "master")
        time.sleep(2)  # a worker that finds no master waits for seconds
        yield [Node(start(site.guide.worker, name)) for name in ("node-1", "node-2")]


def _wait(name: str, process: subprocess.Popen[bytes], look: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not look():
        if process.poll() is not None or time.monotonic() > end:
            raise ReleaseError(f"{name} did not come")
        time.sleep(0.02)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _runs_task(executor: int) -> bool:
    """Whether the executor's daemon of Python workers has forked one."""
    return any(_children(daemon) for daemon in _children(executor))


def _descendants(pid: int) -> list[int]:
    children = _children(pid)
    return [*children, *(below for child in children for below in _descendants(child))]


def _children(pid: int) -> list[int]:
    """The processes that a process has started."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _kafka(topics: Topics, name: str) -> tuple[str, str]:
    """Makes a topic; returns the sink of a job, and the topic."""
    topic = topics.make(partitions=3)
    lines = (
        "[dispatch]",
        'to = "kafka"',
        f'bootstrap = "{topics.bootstrap}"',
        f'topic = "{topic}"',
        f'token_topic = "tokens-{name}"',
        "transaction_size = 1000",
    )
    return "\n".join(lines), topic


def _by_object(records: Sequence[Record]) -> dict[bytes | None, list[Record]]:
    """The records of each object in their order; partitions hold objects of several lanes."""
    objects = defaultdict(list)
    for record in records:
        objects[record.key].append(replace(record, offset=0, timestamp=0))
    return dict(objects)


def _published(directory: Path) -> dict[str, bytes]:
    files = (directory / "published").rglob("part-*")
    found = {str(path.relative_to(directory)): path.read_bytes() for path in files}
    if not any(found.values()):
        raise ReleaseError(f"{directory}: no documents")
    return found


def _write_log(directory: Path) -> None:
    """Writes files of field events; the events of an object are in all of them."""
    directory.mkdir()
    for file in range(_FILES):
        numbers = range(1 + file * _EVENTS, 1 + (file + 1) * _EVENTS)
        lines = (
            f"{number},idu={number % _OBJECTS},N,3,2026-01-01 00:00:00,hr,usr,fname,,{number}\n"
            for number in numbers
        )
        (directory / f"{file}.csv").write_text(_COLUMNS + "".join(lines), "utf-8")


def _without_program(programs: Path, directory: Path) -> Path:
    """Makes an environment with the libraries but without the program; returns its Python."""
    shutil.copytree(programs.parent, directory, copy_function=os.link, symlinks=True)
    python = directory / "bin" / "python"
    pip = ("-m", "pip", "--disable-pip-version-check")
    run([python, *pip, "uninstall", "--quiet", "--yes", "xds-publisher"], directory)
    try:
        run([python, "-c", "import publisher"], directory)
    except ReleaseError:
        return python
    raise ReleaseError(f"{python} still has the program")

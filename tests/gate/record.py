"""A plugin of pytest that records the commands of tests as cases of the gate.

``GATE_CORPUS=DIR pytest -p tests.gate.record tests/field`` stores what each test does by commands, or by the
functions behind them, with files and with SQLite; tests that need servers are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import publisher.cli.main
import publisher.config.job_file
import publisher.runs.publisher_instance
import publisher.runs.replay
import tests.values.ways
from tests.gate.corpus import Case, CorpusWriter, Step
from tests.support.workbench import Workbench

COMMANDS = frozenset(
    {"replay", "publish", "migrate", "ddl", "verify", "rejects", "retry", "recover"}
)
MOST_BYTES = 40_000_000
MOST_STEPS = 8
_SERVERS = re.compile(rb"postgresql|mysql|mariadb|kafka|--follow|spark", re.IGNORECASE)
_FORMAT = re.compile(r'format = "([a-z-]+)"')
_BESIDE = ("-wal", "-shm", "-journal")
Stat = tuple[int, int]


class Recorder:
    """Records the commands of one test after the other."""

    def __init__(self, writer: CorpusWriter) -> None:
        self._writer = writer
        self._jobs: dict[int, tuple[object, Path]] = {}
        self.begin("", None)

    def begin(self, name: str, root: Path | None) -> None:
        """Begins the case of a test."""
        self._name, self._root = name, root
        self._steps: list[Step] = []
        self._open = root is not None
        self._before: dict[str, Stat] = {}
        self._own: set[str] = set()
        self._formats: set[str] = set()
        self._bytes = 0

    def end(self) -> None:
        """Stores the case of the test, if its commands can be repeated."""
        if self._steps and any(step.words[0] in ("publish", "replay") for step in self._steps):
            group = self._name.split("/")[1]
            formats = sorted(self._formats or {"event-log"})
            self._writer.add(Case(self._name, group, formats, self._steps, str(self._root)))
        self.begin("", None)

    def loaded(self, job: Path, settings: object) -> None:
        """Remembers the job file of settings."""
        self._jobs[id(settings)] = (settings, job.absolute())

    def job_of(self, settings: object) -> Path | None:
        """The job file that settings come from, unless they were changed."""
        found = self._jobs.get(id(settings))
        return found[1] if found is not None and found[0] is settings else None

    def command(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        run: Callable[[], Any],
    ) -> Any:
        """Runs a command and records it."""
        if self._open:
            self._record(words, folder, environment)
            if len(self._steps) >= MOST_STEPS:
                self._open = False
        try:
            return run()
        finally:
            if self._open:
                found = self._files()
                self._own |= found.keys() - self._before.keys()
                self._before = found

    def _record(self, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        assert self._root is not None
        if not words or words[0] not in COMMANDS:
            return
        found = self._files()
        write = [name for name, stat in found.items() if self._before.get(name) != stat]
        gone = [name for name in self._before if name not in found]
        size = sum(found[name][0] for name in write)
        if self._own & {*write, *gone} or size + self._bytes > MOST_BYTES:
            self._open = False
            return
        contents = {name: (self._root / name).read_bytes() for name in write}
        texts = [*(text for name, text in contents.items() if name.endswith(".toml"))]
        said = b"\0".join([*texts, *(word.encode() for word in words)])
        if _SERVERS.search(said):
            self._open = False
            return
        self._formats |= {name for text in texts for name in _FORMAT.findall(text.decode())}
        self._bytes += size
        self._steps.append(
            Step(
                [word.replace(str(self._root), "{root}") for word in words],
                {name: self._writer.keep(content) for name, content in contents.items()},
                gone,
                {},
                dict(environment),
                str(folder.relative_to(self._root)) if folder.is_relative_to(self._root) else ".",
            )
        )
        self._before = found

    def _files(self) -> dict[str, Stat]:
        assert self._root is not None
        found = {}
        for path in self._root.rglob("*"):
            name = str(path.relative_to(self._root))
            if path.is_file() and not path.is_symlink() and not name.endswith(_BESIDE):
                stat = path.stat()
                found[name] = (stat.st_size, stat.st_mtime_ns)
        return found


_recorder = Recorder(CorpusWriter(Path(os.environ["GATE_CORPUS"])))


def pytest_configure() -> None:
    """Puts the recorder before the ways in which tests run the program."""
    _record_commands()
    _record_functions()


def _record_commands() -> None:
    run = Workbench.run

    def bench_run(self: Workbench, *words: str, **options: Any) -> Any:
        environment = options.get("environment", {})
        return _recorder.command(
            words, self.folder, environment, lambda: run(self, *words, **options)
        )

    Workbench.run = bench_run  # type: ignore[method-assign]
    run_way = tests.values.ways.run

    def way_run(*words: str) -> str:
        return str(_recorder.command(words, Path.cwd(), {}, lambda: run_way(*words)))

    tests.values.ways.run = way_run
    main = publisher.cli.main.cli.main

    def cli_main(args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        return _recorder.command(
            [*(args or ())], Path.cwd(), {}, lambda: main(args, *rest, **options)
        )

    publisher.cli.main.cli.main = cli_main  # type: ignore[method-assign]


def _record_functions() -> None:
    load, replay = publisher.config.job_file.load, publisher.runs.replay.replay
    publish = publisher.runs.publisher_instance.publish

    def loading(path: Path, *rest: Any, **options: Any) -> Any:
        settings = load(path, *rest, **options)
        _recorder.loaded(path, settings)
        return settings

    def replaying(settings: Any, snapshots: Sequence[Path], target: str, **options: Any) -> Any:
        job = _recorder.job_of(settings)
        if job is None or options.keys() - {"now", "again"}:
            return replay(settings, snapshots, target, **options)
        words = ["replay", "-c", str(job), *map(str, snapshots), "--to", target]
        words += _more_words(options)
        run = lambda: replay(settings, snapshots, target, **options)  # noqa: E731
        return _recorder.command(words, job.parent, {}, run)

    def publishing(settings: Any, **options: Any) -> Any:
        job = _recorder.job_of(settings)
        if job is None or options.keys() - {"now"}:
            return publish(settings, **options)
        words = ["publish", "-c", str(job), *_more_words(options)]
        return _recorder.command(words, job.parent, {}, lambda: publish(settings, **options))

    publisher.config.job_file.load = loading
    publisher.runs.replay.replay = replaying
    publisher.runs.publisher_instance.publish = publishing


def _more_words(options: Mapping[str, Any]) -> list[str]:
    words = [] if options.get("now") is None else ["--now", options["now"].isoformat()]
    return [*words, "--again"] if options.get("again") else words


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Records one test."""
    root = getattr(item, "funcargs", {}).get("tmp_path")
    _recorder.begin(item.nodeid, root)
    yield
    _recorder.end()

"""The two programs of the gate: the one of the tag, with its inputs and results, and the one of this tree."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import click

from tests.gate.histories import write_histories

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "gate"
TAG = "before-subtraction"
WORKER = Path(__file__).with_name("worker.py")
Result = dict[str, Any]


def prepare_inputs() -> Path:
    """Makes the inputs once, by the program of the tag: its tests know how to write them.

    ``tests/gate/inputs.py`` stands at the tag only.
    """
    corpus, commit = CACHE / "corpus", _git("rev-parse", f"{TAG}^{{commit}}")
    done = corpus / "commit"
    if not done.exists() or done.read_text() != commit:
        python = old_python()
        click.echo("The program of the tag makes the inputs, once: about ten minutes", err=True)
        environment = {**os.environ, "PYTHONPATH": str(CACHE / "tag")}
        subprocess.run(
            [python, "-m", "tests.gate.inputs", str(corpus)],
            cwd=CACHE / "tag",
            env=environment,
            check=True,
        )
        write_histories(corpus)
        done.write_text(commit)
    return corpus


def old_python() -> Path:
    """The Python of the tag's worktree, which is made and set up if it is not there."""
    tree = CACHE / "tag"
    if not (tree / "run").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", str(tree), TAG)
    _git("-C", str(tree), "checkout", "--quiet", "--detach", TAG)
    subprocess.run(["./run", "setup"], cwd=tree, check=True)
    return tree / ".venv" / "bin" / "python"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def old_results(corpus: Path, names: Sequence[str], way: str) -> dict[str, Result]:
    """What the program of the tag made of cases; each is run once."""
    kind = way if way in ("local", "spark") else "kafka"
    folder = CACHE / "old"
    folder.mkdir(exist_ok=True)
    paths = {name: folder / f"{_digest(corpus, name)}-{kind}.json" for name in names}
    missing = [name for name, path in paths.items() if not path.exists()]
    if missing:
        click.echo(f"The program of the tag runs {len(missing)} cases, once", err=True)
        python = old_python()

        def keep(name: str, result: Result) -> None:
            paths[name].write_text(json.dumps(result), "utf-8")

        run_cases(python, corpus, missing, keep, way)
    return {name: json.loads(path.read_text("utf-8")) for name, path in paths.items()}


def _digest(corpus: Path, name: str) -> str:
    return hashlib.sha256((corpus / "cases" / name).read_bytes()).hexdigest()[:32]


def run_cases(
    python: Path,
    corpus: Path,
    names: Sequence[str],
    done: Callable[[str, Result], None],
    way: str,
    dropped: Sequence[str] = (),
) -> None:
    """Runs cases with a program, in as many processes as there are cores.

    ``way`` is ``local``, ``spark`` or the address of brokers to which files are replayed; ``dropped`` are
    settings that the program no longer has.
    """
    queue: SimpleQueue[str] = SimpleQueue()
    for name in names:
        queue.put(name)
    count = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="gate-") as scratch, ThreadPoolExecutor(count) as pool:
        work = [
            pool.submit(_work, python, corpus, Path(scratch), queue, done, [way, *dropped])
            for _ in range(count)
        ]
        for future in work:
            future.result()


def _work(
    python: Path,
    corpus: Path,
    scratch: Path,
    queue: SimpleQueue[str],
    done: Callable[[str, Result], None],
    more: Sequence[str],
) -> None:
    words = [str(python), str(WORKER), str(corpus), str(scratch), *more]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        for name in _taken(queue):
            worker.stdin.write(f"{name}\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
            if not line:
                raise SystemExit(f"the worker ended at {name}: see its messages above")
            done(name, json.loads(line))
        worker.stdin.close()


def _taken(queue: SimpleQueue[str]) -> Iterator[str]:
    while True:
        try:
            yield queue.get_nowait()
        except Empty:
            return

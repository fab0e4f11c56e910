"""The measuring of memory and processor time measures what it says."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.processes import CpuWatch, DiskWatch, Role, Watch, peak_size, reset_peaks, role
from tests.support.process_tree import (
    Process,
    descendants,
    is_running,
    process_table,
    process_tree,
    running_in,
)

MIB = 1 << 20
GREEDY = f"b = bytearray(b'x' * {96 * MIB}); del b; print('done', flush=True); input()"


def child(code: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> None:
    process.communicate("\n", timeout=20)


def test_sees_the_peak_of_a_grandchild_that_has_given_the_memory_back() -> None:
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GREEDY!r}])"
    others = {p.pid for p in process_tree(os.getpid(), process_table())}  # of other tests
    with Watch(interval=0.01) as watch:
        process = child(nested)
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        finish(process)
    sizes = [p.size for p in watch.peaks() if p.pid not in others]
    assert len(sizes) >= 2
    assert 96 * MIB < sizes[0] < 250 * MIB
    assert sizes[1] < 96 * MIB


def test_a_reset_forgets_the_peak() -> None:
    process = child(GREEDY)
    assert process.stdout is not None
    process.stdout.readline()
    before = peak_size(process.pid)
    reset_peaks(process.pid)
    after = peak_size(process.pid)
    finish(process)
    assert before is not None
    assert after is not None
    assert before > 96 * MIB > after


def test_processes_that_a_child_forks_are_workers() -> None:
    table = {
        5: Process(5, 1, "python"),
        7: Process(7, 5, "python3"),
        8: Process(8, 7, "python3"),
    }
    roles = [role(p, 5, table) for p in process_tree(5, table)]
    assert roles == [Role.ROOT, Role.OTHER, Role.WORKER]


def test_tree_has_descendants_only_and_is_empty_for_no_process() -> None:
    table = {
        1: Process(1, 0, "init"),
        5: Process(5, 1, "python"),
        7: Process(7, 5, "java"),
        8: Process(8, 7, "python3"),
        9: Process(9, 8, "python3"),
        6: Process(6, 1, "other"),
    }
    assert [p.pid for p in process_tree(5, table)] == [5, 7, 8, 9]
    assert process_tree(4711, table) == []
    assert [role(p, 5, table) for p in process_tree(5, table)] == [
        Role.ROOT,
        Role.JVM,
        Role.DAEMON,
        Role.WORKER,
    ]


def test_table_holds_this_process_with_its_parent() -> None:
    assert process_table()[os.getpid()].parent == os.getppid()


def test_a_child_is_found_and_runs_until_it_is_killed() -> None:
    process = child("input()")
    assert process.pid in descendants(os.getpid())
    assert {process.pid, os.getpid()} <= running_in(os.getsid(0))
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its exit code remains
    assert process_table()[process.pid].has_ended
    assert not is_running(process.pid)
    assert process.pid not in running_in(os.getsid(0))
    finish(process)
    assert not is_running(process.pid)


def test_peak_of_a_process_that_is_gone_is_unknown() -> None:
    process = child("pass")
    finish(process)
    assert peak_size(process.pid) is None


def test_counts_the_processor_time_of_a_child_while_it_runs() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True); input()"
    with Watch() as watch:
        process = child(busy)
        assert process.stdout is not None
        process.stdout.readline()
    finish(process)
    assert 0.25 < watch.cpu_seconds < 2


def test_counts_the_processor_time_of_an_orphan_that_was_adopted() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True); input()"
    measure = f"""
import os, subprocess, sys
from tests.bench.processes import adopt_orphans, cpu_seconds
adopt_orphans()
before = cpu_seconds(os.getpid())
shell = subprocess.Popen(['sh', '-c', '"$0" -c "$1" <&0 & exit', sys.executable, {busy!r}],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
shell.wait()
assert shell.stdout.readline() == b'done\\n'
shell.communicate(b'\\n')
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
print(cpu_seconds(os.getpid()) - before)
"""
    output = subprocess.run([sys.executable, "-c", measure], capture_output=True, check=True)
    assert 0.25 < float(output.stdout) < 2


def test_sees_files_that_are_gone_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(bytes(3 * MIB))
    below = tmp_path / "below"
    below.mkdir()
    with DiskWatch(tmp_path, interval=0.01) as watch:
        (below / "large").write_bytes(os.urandom(2 * MIB))
        deadline = time.monotonic() + 20
        while watch.greatest < 2 * MIB and time.monotonic() < deadline:
            time.sleep(0.01)
        (below / "large").unlink()
    assert 2 * MIB <= watch.greatest < 3 * MIB


def test_counts_the_time_of_a_process_whose_end_nobody_notices() -> None:
    burn = "import time\nwhile time.process_time() < 1: pass"
    code = (
        "import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        f"subprocess.Popen([sys.executable, '-c', {burn!r} + '\\nprint(1)\\ntime.sleep(1)']).wait();"
    )
    with CpuWatch(interval=0.1) as watch:
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
    assert watch.seconds >= 1

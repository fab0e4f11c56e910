"""Starts the JVM that Spark runs in, without the scripts and the second JVM of ``spark-submit``.

Imports no pyspark, so that the JVM can start in the background.

The archive of classes (class-data sharing) saves seconds at every start.  Its name is tied to the
Java runtime, to Spark and to the JVM's flags; without it the JVM starts more slowly.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shlex
import shutil
import string
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from publisher.engine.spark.options import SparkOptions, conf_of
from publisher.errors import FatalError

LOGGING = Path(__file__).with_name("log4j2.properties")
"""Errors only, to stderr."""

_START_SECONDS = 120
_STOP_SECONDS = 120
"""Maximum seconds until a JVM ends: writing an archive of classes takes a while, ending alone a second."""
_WORKER_STOP_SECONDS = 10
"""Maximum seconds until Python workers end after their JVM: they only have to be scheduled once more."""
PROGRAM = "xds-publisher"
"""Name of a user that the system has no name for."""
_MAIN = "org.apache.spark.deploy.SparkSubmit"

# The flags of Spark's own launcher (a test compares), without the incubator module of vectors: only
# Spark's machine learning uses it, and the JVM would print a warning.
_OPEN_PACKAGES = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPEN_PACKAGES),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
_OWN_FLAGS = (
    # Only the first compiler: a short run ends before the second one pays off, a long run is not slower.
    "-XX:TieredStopAtLevel=1",
    # Otherwise messages of the JVM go to stdout, which is for data only.
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
)

# If one of these is set, Spark's own scripts start the JVM.
_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_DIST_CLASSPATH")


@dataclass(slots=True)
class Jvm:
    """A started JVM and, once it answers, the address of its gateway."""

    process: subprocess.Popen[bytes]
    answer: Path
    conf: Mapping[str, str]
    archive: Path | None
    gateway: tuple[int, str] | None = field(default=None)
    worker_groups: set[int] = field(default_factory=set)

    def wait(self) -> tuple[int, str]:
        """Waits for port and secret of the gateway.

        Raises:
            FatalError: The JVM ended or did not answer, even without the archive.
        """
        if self.gateway is None:
            try:
                self.gateway = _read_answer(self.process, self.answer)
            except FatalError:
                if self.archive is None:
                    raise
                second = launch(self.conf, archive=None)
                self.process, self.gateway, self.archive = second.process, second.wait(), None
            finally:
                shutil.rmtree(self.answer.parent, ignore_errors=True)
        return self.gateway

    def find_workers(self) -> None:
        """Finds the Python workers of this JVM, for whose end :meth:`stop` waits.

        Call it while the JVM runs: afterwards nothing says whose workers they were.
        """
        # a daemon leads the group of its workers
        self.worker_groups |= {
            process.group for process in _processes() if process.parent == self.process.pid
        }

    def stop(self) -> None:
        """Ends the JVM, which removes its temporary files, and its workers; does nothing if it has ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.gateway is None:
            # a JVM that is still starting has nothing to clean up, and does not react
            self.process.kill()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._wait_for_workers()
        shutil.rmtree(self.answer.parent, ignore_errors=True)

    def _wait_for_workers(self) -> None:
        """Waits for workers, which end by a signal of their daemon: the JVM does not wait for them."""
        deadline = time.monotonic() + _WORKER_STOP_SECONDS
        while self.worker_groups and time.monotonic() < deadline:
            self.worker_groups &= {process.group for process in _processes() if process.is_running}
            if self.worker_groups:
                time.sleep(0.005)


class _Process(NamedTuple):
    parent: int
    group: int
    is_running: bool


def _processes() -> Iterator[_Process]:
    """Lists the processes of this machine; none where the system has no /proc."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        # it has ended meanwhile, or belongs to somebody else
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            state, parent, group = path.read_text().rpartition(")")[2].split()[:3]
            yield _Process(int(parent), int(group), state not in "ZX")


def start_jvm(options: SparkOptions) -> Jvm | None:
    """Starts the JVM of a later session in the background, which takes a second.

    Returns ``None`` if another program starts it: under ``spark-submit``, next to an existing session,
    or if the environment names another Spark.
    """
    sql = sys.modules.get("pyspark.sql")
    has_session = sql is not None and sql.SparkSession._instantiatedSession is not None
    if has_session or "PYSPARK_GATEWAY_PORT" in os.environ or any(map(os.environ.get, _FOREIGN)):
        return None
    return launch(conf_of(options), archive=find_archive())


def launch(conf: Mapping[str, str], *, archive: Path | None, flags: tuple[str, ...] = ()) -> Jvm:
    """Starts the JVM and returns at once.

    The JVM ends when this process ends, however that happens: it reads its standard input, whose other
    end only this process holds.  The JVM is not in the terminal's process group, so that Ctrl-C reaches
    only this process, which then stops the JVM properly.
    """
    home = spark_home()
    answer = Path(tempfile.mkdtemp(prefix="xds-publisher-")) / "gateway"
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
    }
    if not _has_name():  # Hadoop and Spark need one
        environment = {"HADOOP_USER_NAME": PROGRAM, "SPARK_USER": PROGRAM} | environment
        home_of_user = os.environ.get("HOME", "")
        home_of_user = home_of_user if os.access(home_of_user, os.W_OK) else tempfile.gettempdir()
        flags = (f"-Duser.home={Path(home_of_user).absolute()}", f"-Duser.name={PROGRAM}", *flags)
    settings = answer.with_name("spark.properties")
    _write_private(settings, "".join(_property(name, value) for name, value in conf.items()))
    command = [*_java_command(conf, archive, answer.with_name("options")), *flags, _MAIN]
    command += ["--properties-file", str(settings), "pyspark-shell"]
    process = subprocess.Popen(  # noqa: S603 - Java, by its own path
        command,
        stdin=subprocess.PIPE,
        stdout=2,
        env=environment,
        process_group=0,
        umask=0o077,  # shuffle files hold personal data, and lie in /tmp
    )
    return Jvm(process, answer, conf, archive)


def _has_name() -> bool:
    """Returns whether the system has a name for the user of this process, as containers often have not."""
    try:
        return bool(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        return False


def _java_command(conf: Mapping[str, str], archive: Path | None, options: Path) -> list[str]:
    """Builds the command up to the main class; writes options of the job file into the file ``options``."""
    class_path = [str(spark_home() / "jars" / "*")]
    class_path += [
        os.environ[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if name in os.environ
    ]
    if "spark.driver.extraClassPath" in conf:
        class_path.append(conf["spark.driver.extraClassPath"])
    command = [str(java()), "-cp", os.pathsep.join(class_path), *FLAGS, *_OWN_FLAGS]
    if archive is not None:
        command.append(f"-XX:SharedArchiveFile={archive}")
    command.append(f"-Xmx{conf.get('spark.driver.memory', '1g')}")
    words = shlex.split(conf.get("spark.driver.extraJavaOptions", ""))
    if words:
        _write_private(options, "".join(f"{_argument(word)}\n" for word in words))
        command.append(f"@{options}")
    return command


def _write_private(path: Path, text: str) -> None:
    """Writes a file that only we can read: settings hold secrets, and process arguments are public."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _property(name: str, value: str) -> str:
    """A line of a Java properties file."""
    return f"{_escape(name)}={_escape(value)}\n"


def _escape(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    plain = frozenset(map(ord, string.ascii_letters + string.digits + "._-"))
    return "".join(chr(code) if code in plain else f"\\u{code:04x}" for code in codes)


def _argument(word: str) -> str:
    """A word of a file of Java options."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


def _read_answer(process: subprocess.Popen[bytes], answer: Path) -> tuple[int, str]:
    end = time.monotonic() + _START_SECONDS
    while not answer.exists():
        if process.poll() is not None:
            raise FatalError(
                f"the Java runtime {java()} ended with code {process.returncode} while Spark started:"
                " see its messages above, correct [spark.conf] or the runtime, and start again"
            )
        if time.monotonic() > end:
            process.kill()
            process.wait()
            raise FatalError(
                f"Spark did not start within {_START_SECONDS} s: wait until the machine is less busy and"
                " start again"
            )
        time.sleep(0.005)
    content = answer.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()


def spark_home() -> Path:
    """Directory of the installed PySpark, which has Spark's jars in it.

    Raises:
        FatalError: PySpark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FatalError("PySpark is not installed: ./run setup installs it")
    return Path(spec.origin).parent


def java() -> Path:
    """Finds the Java runtime: in JAVA_HOME, else that of the set-up, else on the PATH.

    Raises:
        FatalError: No Java runtime is installed.
    """
    setup_home = Path(sys.prefix, "java-home")
    homes = [
        os.environ.get("JAVA_HOME", ""),
        setup_home.read_text().strip() if setup_home.exists() else "",
    ]
    for home in filter(None, homes):
        executable = Path(home, "bin", "java")
        if executable.exists():
            return executable
    on_path = shutil.which("java")
    if on_path is None:
        raise FatalError(
            "no Java runtime found: install Java 17 or newer (openjdk-17-jre-headless), or set"
            " JAVA_HOME, and start again"
        )
    return Path(on_path).resolve()


def archive_path() -> Path:
    """Path of the archive of classes for this Java, this Spark and these flags."""
    home = java().resolve().parent.parent
    library = home / "lib" / "server" / "libjvm.so"
    stat = library.stat() if library.exists() else java().stat()
    identity = (str(home), stat.st_size, stat.st_mtime_ns, str(spark_home()), FLAGS, _OWN_FLAGS[:1])
    digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:12]
    return Path(sys.prefix, "class-data", f"spark-{version('pyspark')}-{digest}.jsa")


def find_archive() -> Path | None:
    """Returns the archive of classes if it exists and is complete."""
    path = archive_path()
    try:
        is_complete = path.stat().st_size == int(path.with_suffix(".size").read_text())
    except (OSError, ValueError):
        return None
    return path if is_complete else None

"""Starts Spark's JVM by PySpark's own launcher.

Settings may hold secrets, and process arguments are public, so settings and Java options go to files that
only this user can read.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import string
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from publisher.engine.spark.options import DEFAULTS, JAVA_OF_SETUP
from publisher.errors import FatalError

GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
"""Environment variable that ``spark-submit`` sets for the programs that it starts."""
LOGGING = Path(__file__).with_name("log4j2.properties")
"""Errors only, to stderr."""
PROGRAM = "xds-publisher"
"""Name of a user that the system has no name for."""
_OPTIONS = "spark.driver.extraJavaOptions"
_SUBMIT = "PYSPARK_SUBMIT_ARGS"
_OF_SHELLS = {name: DEFAULTS[name] for name in ("spark.app.name", "spark.ui.showConsoleProgress")}
"""Settings that Spark's launcher would give values of its own."""
_MODULE = b"Using incubator modules: jdk.incubator.vector"
"""Spark asks for this module, and no Java option leaves the note on it out."""
_JAVA_OPTIONS = (
    # otherwise messages of the JVM go to stdout, which is for data only
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
)


def launch(conf: Mapping[str, str]) -> Any:
    """Starts the JVM with settings of the job file, or connects to that of ``spark-submit``.

    Returns PySpark's gateway; the JVM ends with this process.

    Raises:
        FatalError: There is no Java runtime, or the JVM ended.
    """
    environment, options = _user()
    environment |= _java_home()
    options += shlex.split(conf.get(_OPTIONS, ""))
    with tempfile.TemporaryDirectory(prefix="xds-publisher-") as folder:
        arguments, settings = Path(folder, "options"), Path(folder, "spark.properties")
        _write_private(arguments, "".join(f"{_argument(word)}\n" for word in options))
        given = {**_OF_SHELLS, **conf, _OPTIONS: f"@{arguments}"}
        _write_private(settings, "".join(_property(*setting) for setting in given.items()))
        rest = os.environ.get(_SUBMIT, "pyspark-shell")
        environment[_SUBMIT] = f"--properties-file {settings} --load-spark-defaults {rest}"
        # stdout is for data; shuffle files hold personal data, and lie in /tmp
        with _set_environment(environment), _messages() as messages:
            start = {"stdout": messages, "stderr": messages, "umask": 0o077}
            try:
                return launch_gateway(popen_kwargs=start)  # type: ignore[no-untyped-call]
            except PySparkRuntimeError:
                raise FatalError(
                    "the Java runtime ended while Spark started: see its messages above, correct"
                    " [spark.conf] or the runtime, and start again"
                ) from None


def _write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read."""
    path.touch(0o600)
    path.write_text(text, "utf-8")


@contextmanager
def _messages() -> Iterator[int]:
    """Yields a descriptor for what the JVM prints; it goes to stderr without the note on Spark's module."""
    reader, writer = os.pipe()

    def copy() -> None:
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                if _MODULE not in line:
                    os.write(2, line)

    Thread(target=copy, daemon=True).start()
    try:
        yield writer
    finally:
        os.close(writer)


@contextmanager
def _set_environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _user() -> tuple[dict[str, str], list[str]]:
    """Environment and Java options for a user without a name, as containers often have: Hadoop needs one."""
    try:
        has_name = bool(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        has_name = False
    if has_name:
        return {}, [*_JAVA_OPTIONS]
    names = {name: os.environ.get(name, PROGRAM) for name in ("HADOOP_USER_NAME", "SPARK_USER")}
    home = os.environ.get("HOME", "")
    home = home if os.access(home, os.W_OK) else tempfile.gettempdir()
    return names, [f"-Duser.home={Path(home).absolute()}", f"-Duser.name={PROGRAM}", *_JAVA_OPTIONS]


def _java_home() -> dict[str, str]:
    """The Java runtime of the set-up, where the environment names none.

    Raises:
        FatalError: No Java runtime is installed.
    """
    if os.environ.get("JAVA_HOME"):
        return {}
    if JAVA_OF_SETUP.exists():
        return {"JAVA_HOME": JAVA_OF_SETUP.read_text().strip()}
    if shutil.which("java") is None and GATEWAY_PORT not in os.environ:
        raise FatalError(
            "no Java runtime found: install Java 17 or newer (openjdk-17-jre-headless), or set"
            " JAVA_HOME, and start again"
        )
    return {}


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

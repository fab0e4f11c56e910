"""Real Apache Kafka brokers for tests and benchmarks: started here, thrown away after.

Their version is that of ``pom.xml`` beside this module.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.services.jars import jars, java, java_program, make_once
from tests.services.servers import MissingServerError, find, skip_unproved
from tests.services.sharing import share
from tests.services.topics import Topics

START_SECONDS = 90.0
SHORT_LIVED = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")
"""Options of a JVM that starts in two thirds of the time, and is slower after minutes."""

LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""

SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # few partitions: a node is up and a coordinator is found sooner
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # a killed node is missed sooner, and taken back sooner
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "3000",
    # the default wants half of our heap
    "log.cleaner.dedupe.buffer.size": "4194304",
}
RESTARTED = {"broker.heartbeat.interval.ms": "100", "broker.session.timeout.ms": "1000"}
"""Of brokers that tests kill: one that comes back waits until the session before has ended."""
SHARED = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "metadata.max.idle.interval.ms": "0",  # no empty record in its metadata each half second
}
"""Of the broker that no test kills: so it needs half the processor time at rest."""
REPLICATED = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
IN_SYNC = (
    "min.insync.replicas",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.min.isr",
)


_CHANCE = random.SystemRandom()  # whatever a test seeds, it does not bring the same port twice
_GIVEN: set[int] = set()


def quiet_port() -> int:
    """A free port that no outgoing connection gets by chance while its server is down."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = _CHANCE.randrange(10_000, first)
        with socket.socket() as probe:
            if port not in _GIVEN and probe.connect_ex(("127.0.0.1", port)):
                _GIVEN.add(port)
                return port


@dataclass
class KafkaNode:
    """A broker that is a controller too; ``address`` is where clients find it."""

    number: int
    address: str
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def launch(self) -> None:
        """Starts the process, on the same data and ports as before; one that runs is let run."""
        if self.running():
            return
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/"
            )

    def start(self) -> None:
        """Starts the node and waits until it takes part in its cluster.

        The node ends with the thread that starts it, also when that is killed.
        """
        self.launch()
        self.wait()

    def wait(self, seconds: float = START_SECONDS) -> None:
        """Waits until the node answers as a part of its cluster.  Raises ``RuntimeError``."""
        deadline = time.monotonic() + seconds
        while not self.answers():
            if not self.running() or time.monotonic() > deadline:
                raise RuntimeError(f"{self.command}: {self.log.read_text()[-4000:]}")
            time.sleep(0.1)

    def answers(self) -> bool:
        """True if the node says that it serves topics."""
        host, port = self.address.split(":")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((host, int(port))):
                return False
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        try:
            return self.number in admin.list_topics(timeout=2).brokers
        except KafkaException:
            return False

    def running(self) -> bool:
        """True while there is a process, even a paused one."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Ends the node at once (SIGKILL)."""
        self.end(signal.SIGKILL)
        self.reap()

    def stop(self) -> None:
        """Lets the node hand over what it leads and end (SIGTERM)."""
        self.end(signal.SIGTERM)
        self.reap()

    def end(self, number: int) -> None:
        """Asks the node to end, by a signal."""
        if self.process is not None:
            self.process.send_signal(number)

    def reap(self, patience: float = 30.0) -> None:
        """Waits for the end of the process; after ``patience`` seconds it is killed."""
        if self.process is None:
            return
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def pause(self) -> None:
        """Stops the node's clock (SIGSTOP): connections stay, nobody answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        # a thread on another core may go on for a moment
        while any(_state(task) not in "TtX" for task in _tasks(self.process.pid)):
            time.sleep(0.01)

    def resume(self) -> None:
        """Lets a paused node go on (SIGCONT)."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


def _tasks(process: int) -> list[Path]:
    return list(Path(f"/proc/{process}/task").iterdir())


def _state(task: Path) -> str:
    """The state of a thread as proc(5) has it: T where it is stopped, X where it has ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


@dataclass
class KafkaCluster:
    """Nodes that know each other; what is done to the cluster is done to all of them."""

    nodes: list[KafkaNode]

    @property
    def bootstrap(self) -> str:
        """The ``bootstrap.servers`` of clients."""
        return ",".join(node.address for node in self.nodes)

    @property
    def topics(self) -> Topics:
        """The topics of the cluster."""
        return Topics(self.bootstrap)

    def start(self) -> None:
        """Starts the nodes that do not run, wakes those that are paused, and waits for all."""
        for node in self.nodes:
            node.launch()
            node.resume()
        for node in self.nodes:
            node.wait()

    def kill(self) -> None:
        """Ends all nodes at once (SIGKILL)."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends all nodes in good order (SIGTERM)."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Stops the clock of all nodes (SIGSTOP)."""
        for node in self.nodes:
            node.pause()

    def resume(self) -> None:
        """Lets paused nodes go on (SIGCONT)."""
        for node in self.nodes:
            node.resume()

    def _end(self, number: int) -> None:
        for node in self.nodes:
            node.end(number)
        for node in self.nodes:
            node.reap(10)


def quick_start() -> list[str]:
    """Options of a short-lived JVM, which loads Kafka's classes from an archive that is made once.

    Raises ``MissingServerError`` where Kafka cannot be had.
    """
    program = java_program().resolve()
    version = f"{program} {program.stat().st_mtime_ns} {SHORT_LIVED}"
    digest = hashlib.sha256(version.encode()).hexdigest()[:16]
    archive = make_once(f"{jars().name}-{digest}.jsa", _archive_classes)
    return [*SHORT_LIVED, f"-XX:SharedArchiveFile={archive}"]


def _archive_classes(path: Path) -> None:
    """Runs a broker that writes the classes that it has loaded when it ends."""
    path.unlink(missing_ok=True)  # of a run that was killed
    with cluster(options=[*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={path}"]) as started:
        (node,) = started.nodes
        client = Producer(
            {"bootstrap.servers": started.bootstrap, "transactional.id": "any", "log_level": 0}
        )
        client.init_transactions(60)
        client.begin_transaction()
        client.produce(started.topics.make(), b"value")
        client.commit_transaction(60)
        node.end(signal.SIGTERM)
        node.reap(60)


@contextmanager
def cluster(
    nodes: int = 1,
    options: Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[KafkaCluster]:
    """A cluster of one or three nodes with ``options`` of the JVM and further broker ``settings``.

    Without ``options`` they are those of ``quick_start``.  Raises ``MissingServerError`` where Kafka
    cannot be had.
    """
    jars()
    options = quick_start() if options is None else options
    path = Path(tempfile.mkdtemp(prefix="xds-kafka-"))
    started = KafkaCluster([])
    try:
        ports = {number: (quiet_port(), quiet_port()) for number in range(1, nodes + 1)}
        common = {**SETTINGS, **_quorum(ports), **(settings or {})}
        started.nodes += [_node(path, number, ports, common, options) for number in ports]
        for number in ports:
            _format(path, number, options)
        started.start()
        yield started
    finally:
        started.kill()
        shutil.rmtree(path, ignore_errors=True)


def brokers(nodes: int, settings: Mapping[str, str] | None = None) -> Iterator[KafkaCluster]:
    """A cluster for tests, which are skipped where Kafka cannot be had."""
    try:
        with cluster(nodes, settings=settings) as started:
            yield started
    except MissingServerError as missing:
        skip_unproved(f"behaviour with Kafka ({missing})")


def shared_topics(directory: Path) -> Iterator[Topics]:
    """A place for topics on the brokers that ``KAFKA_BOOTSTRAP`` names, else on one of this test run.

    The workers of the run share the broker by files in ``directory``.
    """
    given = os.environ.get("KAFKA_BOOTSTRAP")
    if given:
        topics = Topics(given)
        yield topics
        topics.drop()
        return
    with share(directory, contextmanager(_start_broker)) as bootstrap:
        yield Topics(bootstrap)


def _start_broker() -> Iterator[str]:
    for started in brokers(1, SHARED):
        yield started.bootstrap


def _quorum(ports: Mapping[int, tuple[int, int]]) -> dict[str, str]:
    voters = (f"{number}@127.0.0.1:{port}" for number, (_, port) in ports.items())
    return {
        "controller.quorum.voters": ",".join(voters),
        **dict.fromkeys(REPLICATED, str(min(3, len(ports)))),
        **dict.fromkeys(IN_SYNC, str(min(2, len(ports)))),
    }


def _node(
    path: Path,
    number: int,
    ports: Mapping[int, tuple[int, int]],
    common: Mapping[str, str],
    options: Sequence[str],
) -> KafkaNode:
    clients, controller = ports[number]
    own = {
        "node.id": str(number),
        "listeners": f"PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{clients}",
        "log.dirs": str(path / f"data-{number}"),
    }
    lines = (
        f"{name}={value}\n".replace("@CLIENTS", str(clients)).replace(
            "@CONTROLLER", str(controller)
        )
        for name, value in {**own, **common}.items()
    )
    properties = _properties(path, number)
    properties.write_text("".join(lines))
    logging = path / "log4j2.properties"
    logging.write_text(LOGGING)
    options = [*options, f"-Dlog4j2.configurationFile={logging}"]
    # ends with us, also when we are killed
    prefix = [find("setpriv"), "--pdeathsig=KILL", "--"]
    command = [*prefix, *java("kafka.Kafka", str(properties), options=options)]
    return KafkaNode(number, f"127.0.0.1:{clients}", command, path / f"log-{number}")


def _properties(path: Path, number: int) -> Path:
    return path / f"node-{number}.properties"


def _format(path: Path, number: int, options: Sequence[str]) -> None:
    """Gives a node its formatted directory, which is made once: it depends on the number alone."""
    data = path / f"data-{number}"

    def format_once(target: Path) -> None:
        identity = "4L6g3nShT-eMCtK--X86sw"  # any 16 bytes, the same for all nodes
        words = ("format", "-t", identity, "-c", str(_properties(path, number)))
        command = java("kafka.tools.StorageTool", *words, options=options)
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{command!r}: {(done.stdout + done.stderr)[-4000:]}")
        shutil.rmtree(target, ignore_errors=True)  # of a run that was killed
        shutil.move(data, target)

    shutil.copytree(make_once(f"{jars().name}-node-{number}", format_once), data)

"""``bench verify``: a topic compared with a table, beside a bare reader and Spark's own full outer join.

Published is the table before some changes, compared is the table after them.  Figures are processor time
without the broker's, so that other work on the machine counts less; ratios of wall time are shown, too.
Memory and disk are those of ``verify`` as a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from lxml import etree
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from publisher.config.settings import Settings
from publisher.engine.spark.session import spark_session
from publisher.engine.start import start_engine
from publisher.formats.triggerless.comparison import Comparison
from publisher.runs.publish import publish
from publisher.runs.source_tasks import EngineTasks
from publisher.runs.verify import VerifyRequest, buckets_for, verify
from publisher.verify.find_documents import find_topics
from publisher.verify.survey import PartToSurvey, survey_documents
from publisher.verify.work import VerifyWork
from tests.bench.processes import CpuWatch, DiskWatch, Role, Watch
from tests.bench.program import BOTH_COMPILERS, settings_of, workspace
from tests.bench.report import Report
from tests.bench.topic import read_topic
from tests.bench.triggerless import CHANGED, COLUMNS, GONE, MIB, NEW, tables
from tests.services.kafka import KafkaCluster, cluster

OBJECTS = 300_000
PARTITIONS = 4
HEAP = "1g"
READING, COMPARING = 2.0, 1.5
"""Greatest ratios to the bare reader and to the join."""
BARE, VALUES = "bare reader", "bare reader that takes the values"
READ, JOIN, WHOLE = "reading the topic", "Spark's full outer join", "verify"
MEMORY = {"driver": Role.ROOT, "JVM": Role.JVM, "largest worker": Role.WORKER}

JOB = """
[[sources]]
name = "hr"
format = "triggerless"
snapshots = ["now"]

[tables.usr]
key = ["idu"]
columns = {{ idu = "int" }}

[run]
engine = "spark"

[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
"""
LOCAL_FILES = '"spark.local.dir" = "{}"\n'


class Taken(NamedTuple):
    """Seconds of a call."""

    cpu: float
    """Processor time of this process and all its children, without the brokers."""
    wall: float


@dataclass(frozen=True, slots=True)
class VerifyBench:
    """A job whose topic has the table before its last changes."""

    brokers: KafkaCluster
    settings: Settings
    work: Path
    before: Path
    after: Path

    def measure(self, call: Callable[[], object]) -> Taken:
        """Seconds of a call."""
        brokers = [node.process.pid for node in self.brokers.nodes if node.process is not None]
        start = time.perf_counter()
        with CpuWatch(brokers) as cpu:
            call()
        return Taken(cpu.seconds, time.perf_counter() - start)

    def read_bare(self, parse: Callable[[bytes], object]) -> None:
        """Reads all committed records in this process, and parses their documents."""
        read_topic(self.brokers.bootstrap, self.settings.kafka.topic, parse=parse)

    def read(self) -> None:
        """Reads and folds the documents as ``verify`` does, without any table."""
        with (
            start_engine("spark", self.settings.spark) as engine,
            TemporaryDirectory(dir=self.work) as copies,
        ):
            parts = find_topics(self.settings.kafka).parts
            tasks = EngineTasks(engine, self.settings.rules)
            items = [PartToSurvey(part, Path(copies)) for part in parts]
            surveys = tasks.survey(survey_documents, items)
            parts = tuple(survey.part for survey in surveys)
            buckets = buckets_for(sum(survey.bytes for survey in surveys))
            comparison = Comparison((), str(self.work), keep=False, binary_text=None)
            values = self.settings.values
            tasks.shuffle(VerifyWork(parts, comparison, (), (), values, (), buckets))

    def join(self, spark: SparkSession) -> Mapping[str, int]:
        """Counts the missing, the surplus and the different objects by Spark's own means."""
        spark.conf.set("spark.sql.adaptive.enabled", "true")  # as Spark is by itself
        old, new = (spark.read.parquet(str(path)) for path in (self.before, self.after))
        differs = f.lit(False)
        for name in COLUMNS:
            differs = differs | ~old[name].eqNullSafe(new[name])
        is_missing, is_surplus = old["idu"].isNull(), new["idu"].isNull()
        kinds = {
            "missing": is_missing,
            "surplus": is_surplus,
            "different": ~is_missing & ~is_surplus & differs,
        }
        joined = old.join(new, old["idu"] == new["idu"], "full_outer")
        counts = joined.agg(*(f.count_if(kind).alias(name) for name, kind in kinds.items())).first()
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        assert counts is not None
        return {name: counts[name] for name in kinds}

    def verify(self) -> Mapping[str, int]:
        """Counts the same by ``verify``."""
        (table,) = verify(VerifyRequest(self.settings)).outcome.tables
        return table.counts

    def verify_process(self, report: Report) -> Mapping[str, int]:
        """Counts the same by the command, in a process of its own; adds its memory and disk space."""
        command = [sys.executable, "-m", "publisher.cli", "verify", "--json"]
        command += ["-c", str(self.work / "bench.toml")]
        with (
            DiskWatch(self.work) as disk,
            subprocess.Popen(command, stdout=subprocess.PIPE) as process,
            Watch(process.pid) as memory,
        ):
            output, _ = process.communicate()
        for name, role in MEMORY.items():
            report.add(f"memory: {name}", memory.greatest(role) / MIB, "MiB")
        report.add("disk", disk.greatest / MIB, "MiB")
        (table,) = json.loads(output)["outcome"]["tables"]
        counts: Mapping[str, int] = table["counts"]
        return counts


def run(*, runs: int = 3, objects: int | None = None, **_: int | None) -> Report:
    """All in turn in one session."""
    count = objects or OBJECTS
    report = Report("verify")
    before, after = tables(count)
    expected = {
        "missing": round(count * NEW),
        "surplus": round(count * GONE),
        "different": round(count * CHANGED),
    }
    taken: dict[str, list[Taken]] = {name: [] for name in (BARE, VALUES, READ, JOIN, WHOLE)}
    with (
        cluster(options=[f"-Xmx{HEAP}", "-XX:+UseSerialGC"]) as brokers,
        workspace() as work,
    ):
        other, published = (_settings(work, brokers) for _ in range(2))
        with spark_session(published.spark) as spark:
            _publish(work, published, before)
            _publish(work, other, after)
            bench = VerifyBench(brokers, published, work, before, after)
            report.require("the join finds the changes", bench.join(spark) == expected)
            report.require("verify finds the changes", bench.verify() == expected)
            for _number in range(runs):
                taken[BARE].append(bench.measure(lambda: bench.read_bare(etree.fromstring)))
                taken[VALUES].append(bench.measure(lambda: bench.read_bare(_values)))
                taken[READ].append(bench.measure(bench.read))
                taken[JOIN].append(bench.measure(lambda: bench.join(spark)))
                taken[WHOLE].append(bench.measure(bench.verify))
        report.add("objects", count, "")
        found = bench.verify_process(report)
        report.require("the command finds the changes", found == expected)
    _add_ratios(report, taken)
    return report


def _add_ratios(report: Report, taken: Mapping[str, Sequence[Taken]]) -> None:
    cpu = {
        name: report.add_seconds(name, [each.cpu for each in all_]) for name, all_ in taken.items()
    }
    comparing = cpu[WHOLE] - cpu[READ]
    report.add("comparing: the rest of verify", comparing, "s")
    report.add("reading / bare reader", cpu[READ] / cpu[BARE], "", bound=READING)
    report.add("reading / bare reader that takes the values", cpu[READ] / cpu[VALUES], "")
    report.add("comparing / join", comparing / cpu[JOIN], "", bound=COMPARING)
    wall = {name: min(each.wall for each in all_) for name, all_ in taken.items()}
    report.add("wall time: verify", wall[WHOLE], "s")
    report.add("wall time: reading / bare reader", wall[READ] / wall[BARE], "")
    report.add("wall time: comparing / join", (wall[WHOLE] - wall[READ]) / wall[JOIN], "")


def _values(document: bytes) -> dict[str | None, dict[str | None, list[str | None]]]:
    """The values in a document by association and attribute."""
    return {
        operation.findtext("association"): {
            attribute.get("attr-name"): [value.text for value in attribute.iter("value")]
            for attribute in operation.iterchildren("add-attr", "modify-attr")
        }
        for operation in etree.fromstring(document).iterfind("input/*")
    }


def _settings(work: Path, brokers: KafkaCluster) -> Settings:
    """The job with a topic of its own; the last call writes the job file that remains."""
    topic = brokers.topics.make(PARTITIONS)
    path = work / "bench.toml"
    job = JOB.format(bootstrap=brokers.bootstrap, topic=topic)
    path.write_text(job + BOTH_COMPILERS + LOCAL_FILES.format(work / "spark"))
    return settings_of(path)


def _publish(work: Path, settings: Settings, table: Path) -> None:
    (work / "now").mkdir(exist_ok=True)
    now = work / "now" / "usr.parquet"
    now.unlink(missing_ok=True)
    now.symlink_to(table)
    publish(settings)

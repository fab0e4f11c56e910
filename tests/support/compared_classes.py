"""Tables of a class as files to compare, and the attributes of its objects, computed from the rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from publisher.config.job_file import load
from publisher.consumer import Objects, part_files, read_files
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job

Rows = Sequence[tuple[str | None, ...]]
Attributes = Mapping[str, set[str]]

COLUMNS = {"usr": ("idu", "fname"), "phone": ("idu", "no"), "member": ("idu", "idg")}
JOB = """
[[sources]]
name = "hr"
format = "triggerless"
snapshots = ["in"]
{more}
[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string" }}
references = {{ "member.idg" = {{ table = "grp", key = "idg" }} }}
[tables.usr.children]
phone = {{ columns = {{ no = "string" }} }}
member = {{ columns = {{ idg = "int" }} }}
[run]
lanes = {lanes}
[dispatch]
path = "out"
{rest}
"""


def write_classes(base: Path, tables: Mapping[str, Rows], folder: str = "in") -> None:
    """Writes a file for each table."""
    (base / folder).mkdir(exist_ok=True)
    for name, rows in tables.items():
        lines = [",".join(COLUMNS[name])]
        for row in rows:
            cells = ("" if v is None else '"' + v.replace('"', '""') + '"' for v in row)
            lines.append(",".join(cells))
        text = "".join(f"{line}\n" for line in lines)
        (base / folder / f"{name}.csv").write_text(text, newline="")


def publish_classes(base: Path, more: str = "", rest: str = "", lanes: int = 1) -> RunReport:
    """Publishes the differences."""
    path = base / "job.toml"
    path.write_text(JOB.format(more=more, rest=rest, lanes=lanes))
    return publish_job(load(path))


def follow(consumer: Objects, base: Path, report: RunReport) -> None:
    """Applies the documents of a run."""
    if report.run != "job":  # the files were as before
        consumer.apply_all(read_files(part_files(base / "out" / "runs" / report.run)))


def objects_in(consumer: Objects) -> dict[str, dict[str, set[str]]]:
    """The values of attributes by key, as a consumer knows them."""
    return {
        association.partition(",")[0].removeprefix("idu="): {
            name: {value.text for value in values} for name, values in known.attributes.items()
        }
        for association, known in consumer.items()
    }


def expected_objects(tables: Mapping[str, Rows]) -> dict[str, dict[str, set[str]]]:
    """The oracle: distinct values that are not NULL of the rows whose parent exists."""
    objects: dict[str, dict[str, set[str]]] = {}
    for key, fname in tables["usr"]:
        objects[str(key)] = {} if fname is None else {"fname": {fname}}
    for child, column, form in (
        ("phone", "no", "{}"),
        ("member", "idg", "idg={},table=grp"),
    ):
        for parent, value in tables[child]:
            if parent in objects and value is not None:
                values = objects[str(parent)].setdefault(f"{child}.{column}", set())
                values.add(form.format(value))
    return objects

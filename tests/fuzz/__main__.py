"""``./run fuzz``: damaged files of all formats, each form in a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.fuzz.forms import FORMS
from tests.fuzz.trial import Tally
from tests.fuzz.triggers import try_tables
from tests.fuzz.worker import Failure, in_process
from tests.services import servers

MEMORY = 256 << 20
"""Bytes that reading a file may need beside what the process held before, with all its records."""
_PATIENCE = 300.0
"""Seconds without a word after which a process hangs."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one form."""

    form: str
    tally: Tally
    peak: int
    failures: list[Failure]

    @property
    def holds(self) -> bool:
        return not self.failures and self.peak <= MEMORY


@click.command(help="Reads damaged files of all formats and holds the reading to its promises.")
@click.option("--records", default=100_000, show_default=True, help="records to read, of all forms")
@click.option("--seed", default="1", show_default=True, help="what chance begins with")
@click.option("--format", "only", help="one format, or one form of it, by the begin of its name")
@click.option("--trial", help="one trial of a form, as a failure names it")
@click.option(
    "--values", type=int, help="instead: so many random values of each type, declared as each type"
)
@click.option("--keep", type=click.Path(path_type=Path), help="directory for files that fail")
@click.option("--triggers", type=int, help="tries triggers on so many random tables instead")
def main(
    records: int,
    seed: str,
    only: str | None,
    trial: str | None,
    values: int | None,
    keep: Path | None,
    triggers: int | None,
) -> None:
    """Exit code 0 only if every promise held."""
    if values is not None:
        from tests.values.fuzz import count_differences

        sys.exit(1 if count_differences(seed, values, only) else 0)
    if triggers is not None:
        sys.exit(_try_triggers(triggers, seed))
    names = [form.name for form in FORMS if form.name.startswith(only or "")]
    if not names:
        known = ", ".join(form.name for form in FORMS)
        raise click.UsageError(f"no form begins with {only!r}; there are {known}")
    folder = keep or Path(tempfile.mkdtemp(prefix="xds-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    each = -(-records // len(names))
    outcomes = [_in_a_process(name, seed, each, trial, folder) for name in names]
    _show(outcomes, seed)
    sys.exit(0 if all(outcome.holds for outcome in outcomes) else 1)


def _try_triggers(tables: int, seed: str) -> int:
    """Tries triggers on random tables, a third of them in each kind of database."""
    with servers.postgresql() as postgresql, servers.mariadb() as mariadb:
        urls = {"sqlite": None, "postgresql": postgresql.url, "mariadb": mariadb.url}
        found = 0
        for kind, url in urls.items():
            problems = try_tables(kind, url, -(-tables // len(urls)), seed)
            found += len(problems)
            click.echo("\n".join([*problems, f"{kind}: {len(problems)} failures"]))
    return 1 if found else 0


def _in_a_process(name: str, seed: str, records: int, trial: str | None, folder: Path) -> Outcome:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=in_process, args=(there, name, seed, records, trial, folder))
    process.start()
    there.close()
    tally, failures, text, peak = Tally(), [], "", 0
    try:
        while True:
            if not here.poll(_PATIENCE):
                failures.append(Failure(text, f"hangs for {_PATIENCE:.0f} s", str(folder)))
                click.echo(f"{name}, {text}: {failures[-1].why}", err=True)
                process.kill()
                break
            kind, value = here.recv()
            if kind == "begins":
                text = value
            elif kind == "failure":
                failures.append(value)
                click.echo(f"{name}, {value.trial}: {value.why}\n  kept: {value.kept}", err=True)
            else:
                tally, peak = value
                break
    except EOFError:
        process.join()
        why = f"ended with {process.exitcode}"
        failures.append(Failure(text, why, str(folder)))
        click.echo(f"{name}, {text}: {why}", err=True)
    process.join()
    click.echo(f"{name}: {tally.records:,} records, {len(failures)} failures", err=True)
    return Outcome(name, tally, peak, failures)


def _show(outcomes: list[Outcome], seed: str) -> None:
    table = Table(
        title=f"fuzz, seed {seed}: {'PASS' if all(o.holds for o in outcomes) else 'FAIL'}"
    )
    for name in ("form", "records", "mutations", "unhurt", "rejected", "files", "refused", "MB/s"):
        table.add_column(name, justify="left" if name == "form" else "right")
    table.add_column("peak MiB", justify="right")
    table.add_column("failures", justify="right")
    for outcome in outcomes:
        table.add_row(*_cells(outcome))
    total = _sum(outcomes)
    table.add_row(
        "all",
        *(f"{n:,}" for n in (total.records, total.mutations, total.claimed)),
        *(f"{n:,}" for n in (total.rejected.total(), total.files, total.refused)),
        _speed(total),
        f"{max(o.peak for o in outcomes) / MIB:.0f} of {MEMORY / MIB:.0f}",
        str(_failures(outcomes)),
    )
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for outcome in outcomes:
        reasons = outcome.tally.rejected.most_common()
        text = ", ".join(f"{reason} {count:,}" for reason, count in reasons) or "nothing"
        console.print(f"{outcome.form} rejected: {text}", soft_wrap=True)
    plain = asdict(replace(total, rejected=Counter())) | {"rejected": dict(total.rejected)}
    click.echo(json.dumps({"seed": seed, "failures": _failures(outcomes), **plain}))


def _failures(outcomes: list[Outcome]) -> int:
    return sum(len(outcome.failures) for outcome in outcomes)


def _cells(outcome: Outcome) -> tuple[str, ...]:
    tally = outcome.tally
    return (
        outcome.form,
        *(f"{n:,}" for n in (tally.records, tally.mutations, tally.claimed)),
        *(f"{n:,}" for n in (tally.rejected.total(), tally.files, tally.refused)),
        _speed(tally),
        f"{outcome.peak / MIB:.0f}",
        str(len(outcome.failures)),
    )


def _speed(tally: Tally) -> str:
    return f"{tally.size / 1e6 / tally.seconds:.1f}" if tally.seconds else "–"


def _sum(outcomes: list[Outcome]) -> Tally:
    total = Tally()
    for tally in (outcome.tally for outcome in outcomes):
        for name in ("records", "mutations", "claimed", "files", "refused", "size", "seconds"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.rejected += tally.rejected
    return total


if __name__ == "__main__":
    main()

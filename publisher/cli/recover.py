"""``xds-publisher recover``: continues a job whose ledger was lost."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import show

if TYPE_CHECKING:
    from publisher.engine.contract import EngineName


@command("recover -c hr.toml")
@parameters.config_required
@parameters.now
@parameters.ledger_of_job
@parameters.engine
@parameters.dry_run
@parameters.report_form
def recover(
    config: Path,
    now: datetime | None,
    ledger: Path | None,
    engine: EngineName | None,
    dry_run: bool,
    json_: bool,
) -> None:
    """Continue a job whose ledger was lost or is an older copy.

    It publishes all pending records.  If the topic already has a pending record of an object, all
    documents of this object are sent again with the header recovered; all other documents are sent
    exactly once.  A directory gets all pending records again.  Event ids are those of the lost ledger.
    An interrupted recovery resumes.
    """
    from publisher.cli.progress import show_progress
    from publisher.config.job_file import Overrides, load_to_publish
    from publisher.runs.recover import recover as run_recovery

    settings = load_to_publish(config, Overrides(ledger=ledger, engine=engine))
    with show_progress() as progress:
        report = run_recovery(settings, now=now, progress=progress, dry_run=dry_run)
    show(report, json_, settings.allowed_rejects(0))

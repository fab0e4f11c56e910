"""``xds-publisher validate``: checks XDS documents."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo
from publisher.console import is_terminal
from publisher.errors import FindingsError, UsageError


@command("validate out/part-00000.xds")
@click.argument("files", nargs=-1, required=True, type=parameters.PATH, metavar="FILE...")
@click.option(
    "--profile",
    type=click.Choice(["strict", "lenient"]),
    default="strict",
    show_default=True,
    help="Accept only the documented model (strict), or also elements known from practice (lenient).",
)
@parameters.report_form
def validate(files: tuple[Path, ...], profile: str, json_: bool) -> None:
    """Check files of XDS documents, with one document per file or per line.

    JSON has one finding on each line.
    """
    from publisher.xds.validate import json_line, text_line, validate_files

    findings, documents = 0, Counter[str]()
    missing = [path for path in files if path.is_dir() or not path.exists()]
    echo((f"error: {path}: {_problem_of(path)}" for path in missing), err=True)
    present = [path for path in files if path not in missing]
    for finding in validate_files(present, profile, documents):
        findings += 1
        click.echo(json_line(finding) if json_ else text_line(finding))
    if findings:
        raise FindingsError(
            f"findings: {findings:,}; correct the documents, or see --profile lenient"
        )
    if missing:
        raise UsageError(f"{len(missing):,} of {len(files):,} files not found: check their names")
    if is_terminal() and not json_:
        texts = (_number(len(files), "file"), _number(documents.total(), "document"), "all valid")
        echo([", ".join(texts)])


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _problem_of(path: Path) -> str:
    if path.is_dir():
        return f"is a directory: name its files, as {path}/part-*.xds"
    return "no such file: check its name"

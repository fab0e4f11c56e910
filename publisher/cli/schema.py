"""``xds-publisher schema``: prints the JSON Schema of the job file."""

from __future__ import annotations

import json

import click

from publisher.cli.command import command


@command("schema > job.schema.json")
def schema() -> None:
    """Print the JSON Schema of the job file, for editors.

    Editors that know TOML, such as VS Code with Even Better TOML, then complete and check settings.  Name the
    schema in the first line of a job file: #:schema PATH
    """
    from publisher.config.job_schema import job_schema

    click.echo(json.dumps(job_schema(), indent=1, ensure_ascii=False))

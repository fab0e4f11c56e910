"""The JSON Schema of the job file: a public validator gives the verdict of the program."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator

from docs import generate
from publisher.cli.main import cli
from publisher.config.descriptions import descriptions, own_fields, owners
from publisher.config.job_file import SECTIONS, load
from publisher.config.job_schema import job_schema
from publisher.config.source_sections import source_parts
from publisher.errors import SettingsError
from publisher.formats.registry import FORMATS
from tests.support.settings_reference import CONF, in_force

SHIPPED = sorted(CONF.glob("*.toml"))
VALIDATOR = Draft7Validator(job_schema())

ACCEPTED = {
    "nothing": "",
    "one source": '[source]\nsnapshots = ["a.csv"]',
    "sources of two formats": '[[sources]]\n[[sources]]\nformat = "change-table"\nprefix = "h"',
    "unset texts": "[documents]\nndsversion = false\nversion = false",
    "whole numbers for numbers": "[ledger]\nretention_days = 3",
    "one of two types": '[job]\nreject_budget = "unlimited"',
    "the other type": "[job]\nreject_budget = 3",
    "librdkafka's settings": (
        '[dispatch.kafka]\n"linger.ms" = 5\nacks = "all"\nlog.level = 6\n'
        '"security.protocol" = "PLAINTEXT"'
    ),
    "Spark's settings": '[spark]\nmaster = "local"\n"spark.a.b" = "1"\nspark.c.d = "2"',
    "described tables": (
        '[tables.usr]\nkey = ["idu"]\ncolumns = { idu = "int" }\n'
        '[tables.usr.children.phone]\ncolumns = { no = "string" }\n'
        '[tables.usr.references.mgr]\ntable = "usr"'
    ),
    "tables of a queue": (
        '[source]\nformat = "dispatch-queue"\nnull_mode = "none"\n'
        '[[source.tables]]\nnumber = 7\nname = "usr"'
    ),
    "names of tables to compare": '[source]\nformat = "triggerless"\nsnapshots = ["a"]',
}

BROKEN = {
    "unknown section": "[sink]\n",
    "unknown key": "[run]\nlane = 3",
    "unknown key of a source": "[source]\nsnapshot = ['a']",
    "unknown key in a list": "[[sources]]\n[[sources]]\npolls = 3",
    "key of another format": "[source]\nformat = 'change-table'\npoll_size = 3",
    "loopback without users": "[source]\nformat = 'change-table'\ndriver_user = 'idm'",
    "changes of keys that are compared": (
        "[source]\nformat = 'triggerless'\nsnapshots = ['a']\nkey_change = 'reject'"
    ),
    "unknown format": "[source]\nformat = 'oracle'",
    "both kinds of sources": "[source]\n[[sources]]\n",
    "one table of sources": "[sources]\nformat = 'event-log'",
    "a list of source": "[[source]]\n",
    "text for a whole number": "[run]\nlanes = '3'",
    "fraction for a whole number": "[run]\nlanes = 2.5",
    "truth for a whole number": "[run]\nlanes = true",
    "number for a text": "[job]\nname = 7",
    "text for a truth": "[dispatch]\ncreate_topics = 'yes'",
    "number for a truth": "[documents]\nminimal = 1",
    "text for a list": "[source]\nsnapshots = 'a.csv'",
    "number in a list": "[source]\nsnapshots = [1]",
    "empty text in a list": "[source]\nsnapshots = ['']",
    "empty name": "[job]\nname = ''",
    "below the bound": "[run]\nlanes = 0",
    "above the bound": "[documents]\nbatch_size = 129",
    "zero where more is needed": "[activity]\ngap_seconds = 0",
    "negative days": "[ledger]\nretention_days = -1",
    "unknown choice": "[dispatch]\nto = 'pulsar'",
    "unknown choice of a number": "[documents]\ntime_syntax = 4",
    "unknown engine": "[run]\nengine = 'flink'",
    "unknown case": "[source]\nidentifier_case = 'camel'",
    "neither number nor word": "[job]\nreject_budget = 'many'",
    "false for a text that is needed": "[documents]\nproduct = false",
    "true for a text": "[documents]\nndsversion = true",
    "long delimiter": "[source]\ndelimiter = ',,,,,,,,,,,,,,,,,'",
    "two quotes": "[source]\nquote = '\"\"'",
    "section that is a value": "run = 3",
    "section that is a list": "[[run]]\n",
    "Spark's setting that is no text": "[spark]\n'spark.task.cpus' = 2",
    "Spark's settings in a table": "[spark.conf]\n'spark.a' = '1'",
    "place that is both": "[dispatch.kafka]\n'ssl.key' = { env = 'A', file = 'b' }",
    "place without a name": "[dispatch.kafka]\n'ssl.key' = { env = 3 }",
    "list for librdkafka": "[dispatch.kafka]\n'linger.ms' = [5]",
    "unknown kind of a column": "[tables.usr]\ncolumns = { idu = 'number' }",
    "list of columns": "[tables.usr]\ncolumns = ['idu']",
    "unknown key of a table": "[tables.usr]\nkeys = ['idu']",
    "reference without a table": "[tables.usr.references.mgr]\nkey = 'idu'",
    "missing setting of a format": "[source]\nformat = 'linkexpress'\nunit = 'group'",
    "table of a queue without a number": (
        "[source]\nformat = 'dispatch-queue'\n[[source.tables]]\nname = 'usr'"
    ),
}
"""Files that the program and the validator refuse."""

BEYOND = {
    "unknown time zone": "[documents]\ntime_zone = 'Mars/Olympus'",
    "two inputs": "[source]\ntable = 'log'\nsnapshots = ['a']\nurl = 'sqlite:///a.db'",
    "list without a filter": "[classes]\nsync_tables = ['usr']",
    "equal names": "[[sources]]\nname = 'a'\n[[sources]]\nname = 'a'",
    "setting that breaks a guarantee": "[dispatch.kafka]\nacks = 1",
    "unknown encoding": "[source]\nencoding = 'klingon'",
}
"""Files that only the program refuses: relations, and names that no list holds."""


def is_accepted(tmp_path: Path, text: str) -> bool:
    path = tmp_path / "job.toml"
    path.write_text(text, "utf-8")
    try:
        load(path)
    except SettingsError:
        return False
    return True


def is_valid(text: str) -> bool:
    return bool(VALIDATOR.is_valid(tomllib.loads(text)))


def test_it_is_a_schema_and_the_shipped_one() -> None:
    Draft7Validator.check_schema(job_schema())
    assert json.loads(generate.JOB_SCHEMA.read_text("utf-8")) == job_schema()
    result = CliRunner().invoke(cli, ["schema"])
    assert result.output == generate.JOB_SCHEMA.read_text("utf-8")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_job_files_name_the_schema_and_are_valid(path: Path) -> None:
    text = path.read_text("utf-8")
    reference = text.splitlines()[0].removeprefix("#:schema ")
    assert (path.parent / reference).resolve() == generate.JOB_SCHEMA
    assert not list(VALIDATOR.iter_errors(tomllib.loads(text)))
    assert not list(VALIDATOR.iter_errors(tomllib.loads(in_force(path))))


@pytest.mark.parametrize("name", ACCEPTED)
def test_files_that_the_program_accepts_are_valid(tmp_path: Path, name: str) -> None:
    assert is_accepted(tmp_path, ACCEPTED[name])
    assert is_valid(ACCEPTED[name])


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_the_program_refuses_are_invalid(tmp_path: Path, name: str) -> None:
    assert not is_accepted(tmp_path, BROKEN[name])
    assert not is_valid(BROKEN[name])


@pytest.mark.parametrize("name", BEYOND)
def test_some_files_only_the_program_refuses(tmp_path: Path, name: str) -> None:
    assert not is_accepted(tmp_path, BEYOND[name])
    assert is_valid(BEYOND[name])


def test_every_setting_has_a_description_in_the_schema() -> None:
    sections = job_schema()["properties"]
    for name, kinds in SECTIONS.items():
        if name not in ("sources", "tables", "spark"):
            for kind in kinds:
                for owner in owners(kind):
                    texts = descriptions(owner)
                    for field in own_fields(owner):
                        described = sections[name]["properties"][field.name]["description"]
                        assert described == texts[field.name] != ""


def test_each_format_has_a_schema_with_its_settings() -> None:
    sources = job_schema()["definitions"]["source"]["oneOf"]
    assert [source["title"] for source in sources] == list(FORMATS)
    for format_, source in zip(FORMATS, sources, strict=True):
        names = {
            field.name
            for part in source_parts(format_)
            for owner in owners(part)
            for field in own_fields(owner)
        }
        assert source["properties"].keys() <= names
        assert source["properties"]["format"]["const"] == format_

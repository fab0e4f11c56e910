"""``xds-publisher manual``: writes the manual pages of the program and its commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from publisher import __version__
from publisher.cli import parameters
from publisher.cli.command import Command, command
from publisher.cli.print_report import echo

_ENVIRONMENT = {
    "XDS_DEBUG": "1 shows the traceback of an error.",
    "NO_COLOR": "Any value draws progress without colours.",
    "COLUMNS": "Width of help and progress.",
}


@command("manual /usr/share/man/man1")
@click.argument("directory", type=parameters.PATH)
@click.pass_context
def manual(ctx: click.Context, directory: Path) -> None:
    """Write manual pages, for packages of the program.

    DIRECTORY is created if it is missing.  It receives a page for the program, and one for each command.
    """
    root = ctx.find_root()
    if not directory.exists():
        directory.mkdir(parents=True)
        directory.chmod(0o755)  # pages are for all users
    pages = dict(manual_pages(root.command, root.info_name or ""))
    for name, text in pages.items():
        (directory / name).write_text(text, encoding="utf-8")
        (directory / name).chmod(0o644)
    echo([f"{directory}: {len(pages):,} pages"])


def manual_pages(program: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """Yields the file name and the roff text of each page."""
    assert isinstance(program, click.Group)
    root = click.Context(program, info_name=name, **program.context_settings)
    contexts = [
        click.Context(subcommand, root, info_name=subcommand_name)
        for subcommand_name, subcommand in sorted(program.commands.items())
    ]
    for context in (root, *contexts):
        yield f"{_page_name(context)}.1", "\n".join(_page(context, contexts)) + "\n"


def _page_name(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _page(context: click.Context, subcommands: list[click.Context]) -> Iterator[str]:
    page, summary = _page_name(context), context.command.get_short_help_str(1_000)
    yield f'.TH "{_escape(page.upper())}" "1" "" "xds\\-publisher {__version__}" "XDS publisher"'
    yield f".SH NAME\n{_escape(page)} \\- {_escape(summary.rstrip('.'))}"
    usage = " ".join(context.command.collect_usage_pieces(context))
    yield f".SH SYNOPSIS\n.B {_escape(context.command_path)}\n{_escape(usage)}"
    paragraphs = inspect.cleandoc(context.command.help or "").split("\n\n")
    yield ".SH DESCRIPTION"
    yield "\n.PP\n".join(_escape(" ".join(paragraph.split())) for paragraph in paragraphs)
    yield from _definitions("OPTIONS", _options(context))
    if isinstance(context.command, Command):
        yield ".SH EXAMPLES\n.EX"
        yield from map(_escape, context.command.examples)
        yield ".EE"
        others = [context.find_root()]
    else:
        rows = [(sub.info_name or "", sub.command.get_short_help_str(1_000)) for sub in subcommands]
        yield from _definitions("COMMANDS", rows)
        yield from _definitions("ENVIRONMENT", list(_ENVIRONMENT.items()))
        others = subcommands
    yield ".SH SEE ALSO"
    yield "\n".join(f".BR {_escape(_page_name(other))} (1)" for other in others)


def _options(context: click.Context) -> list[tuple[str, str]]:
    given = context.command.get_params(context)
    options = [parameter for parameter in given if isinstance(parameter, click.Option)]
    return [record for option in options if (record := option.get_help_record(context)) is not None]


def _definitions(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    yield f".SH {title}"
    for name, text in rows:
        yield f".TP\n.B {_escape(name)}\n{_escape(text)}"


def _escape(text: str) -> str:
    """Escapes what roff would read as instructions."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)

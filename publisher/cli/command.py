"""Commands with examples, and with the options that every command has: ``-v``, ``-q`` and ``-h``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import click

from publisher.cli.tracebacks import library_log
from publisher.cli.verbosity import KEY, Verbosity


def _choose(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Stores ``-v`` or ``-q`` of the command line."""
    if not value:
        return
    chosen = Verbosity.VERBOSE if parameter.name == "verbose" else Verbosity.QUIET
    if context.meta.setdefault(KEY, chosen) is not chosen:
        raise click.UsageError("-v excludes -q: leave one of both out", context)
    if chosen is Verbosity.VERBOSE:
        logging.getLogger().addHandler(library_log())


def verbosity_options() -> list[click.Parameter]:
    """Returns the options ``-v`` and ``-q``."""
    texts = {
        "verbose": "Also print each phase with its time, and warnings of libraries.",
        "quiet": "Print errors only: no notes, no progress.",
    }
    return [
        click.Option(
            [f"-{name[0]}", f"--{name}"],
            is_flag=True,
            expose_value=False,
            callback=_choose,
            help=text,
        )
        for name, text in texts.items()
    ]


class Command(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:
        """``examples`` are command lines without the name of the program."""
        super().__init__(*args, **kwargs)
        self.examples = tuple(f"xds-publisher {example}" for example in examples)
        self.params += verbosity_options()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


def command(*examples: str) -> Callable[[Callable[..., Any]], Command]:
    """Makes a function a command of the program; ``examples`` leave out the program's name."""
    return click.command(cls=Command, examples=examples)

"""``xds-publisher completion``: prints the script with which a shell completes words of the command line."""

from __future__ import annotations

import click

from publisher.cli.command import command

PROGRAM = "xds-publisher"
VARIABLE = "_XDS_PUBLISHER_COMPLETE"
"""Environment variable by which the script asks the program for words; click derives it from the name."""


@command("completion fish > ~/.config/fish/completions/xds-publisher.fish")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete commands, options, formats and job files.

    bash reads it from ~/.local/share/bash-completion/completions/xds-publisher, fish from
    ~/.config/fish/completions/xds-publisher.fish, and zsh from a file _xds-publisher in $fpath.
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())

"""``tarmac completion``: parse, call, render."""

from __future__ import annotations

import click
import cloup
from click.shell_completion import get_completion_class

from tarmac.cli.choices import Choice
from tarmac.cli.options import examples


@cloup.command(
    "completion",
    epilog=examples(
        "tarmac completion bash >> ~/.bashrc",
        "tarmac completion zsh >> ~/.zshrc          after the line with compinit",
        "tarmac completion fish > ~/.config/fish/completions/tarmac.fish",
        'eval "$(tarmac completion bash)"           for this shell alone',
    ),
)
@cloup.argument(
    "shell",
    type=Choice(["bash", "zsh", "fish"]),
    help="Shell of the script. Bash must be 4.4 or newer.",
)
@click.pass_context
def command(ctx: click.Context, /, shell: str) -> None:
    """Print a script that lets a shell complete tarmac's commands, options and values."""
    root = ctx.find_root()
    script = get_completion_class(shell)
    assert script is not None
    assert root.info_name is not None
    name = root.info_name
    variable = f"_{name}_COMPLETE".upper()
    click.echo(script(root.command, {}, name, variable).source(), nl=False)

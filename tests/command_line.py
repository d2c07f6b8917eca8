"""Runs the command line in this process, as most tests that go through it do, and lists it."""

from __future__ import annotations

import click
import pytest

from tarmac.cli import main
from tarmac.cli.entry import root


@pytest.fixture
def tarmac(capsys):
    """Return a function that runs the command line and returns (exit code, out, err)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


def commands() -> list[tuple[str, click.Command, click.Context]]:
    """Return every command with the line that calls it, and a context to ask its help in."""
    lines = []

    def walk(line: str, command: click.Command, parent: click.Context | None) -> None:
        context = command.make_context(line.rpartition(" ")[2], [], parent, resilient_parsing=True)
        lines.append((line, context.command, context))
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                walk(f"{line} {name}", inner, context)

    walk("tarmac", root, None)
    return lines


def options() -> dict[str, list[click.Option]]:
    """Return the options of all commands by their names."""
    named: dict[str, list[click.Option]] = {}
    for _, command, _ in commands():
        for option in command.params:
            if isinstance(option, click.Option):
                for name in (*option.opts, *option.secondary_opts):
                    named.setdefault(name, []).append(option)
    return named

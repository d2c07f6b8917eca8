"""The place where work runs: ``--on`` and ``--profile``, and the user's settings behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tarmac.cli.choices import EXECUTORS, Choice
from tarmac.cli.options import option
from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from tarmac.settings import Settings


def _complete_profiles(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from tarmac.settings import profile_names

    try:
        names = profile_names()
    except TarmacError:
        # A shell that completes a line must not show errors of the file.
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


# A sequence, for groups of options that have others too.
def place_options(
    help_text: str, *, default: str = "on in the settings, else local (this machine)"
) -> Sequence[Callable[[Any], Any]]:
    """Return ``--on`` and ``--profile``, passed as ``on`` and ``profile``.

    Args:
        help_text: Help of ``--on``, such as "Where workers run."
        default: Place without the option, as text for the help.
    """
    return (
        option(
            "--on", type=Choice(EXECUTORS, "tarmac.executors"), show_default=default, help=help_text
        ),
        profile_option(),
    )


def profile_option() -> Callable[[Any], Any]:
    """Return ``--profile``."""
    return option(
        "--profile",
        metavar="NAME",
        shell_complete=_complete_profiles,
        help="Use this profile of the settings, with its place and options.",
    )


def chosen(on: str | None, profile: str | None) -> Settings:
    """Return the effective settings: the options, then the profile, then the other settings.

    Args:
        on: Value of ``--on``. None if the user left it out.
        profile: Value of ``--profile``. None if the user left it out.

    Raises:
        RequestError: See `tarmac.settings.chosen`.
    """
    from tarmac.settings import chosen as choose

    return choose(on, profile)

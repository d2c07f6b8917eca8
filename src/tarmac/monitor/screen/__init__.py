"""The screen of ``tarmac top``, with Textual: views, plots, logs, and keys that stop work."""

from __future__ import annotations

import codecs
import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tarmac.distribution import explained_imports

if TYPE_CHECKING:
    from tarmac.monitor.feed import Feed

__all__ = ["ScreenOptions", "can_show_screen", "run_screen", "serve_in_browser"]

# textual-serve sets this variable for a program that draws for a browser.
_BROWSER = "TEXTUAL_DRIVER"


@dataclasses.dataclass(frozen=True)
class ScreenOptions:
    """The appearance and the permissions of the screen.

    Attributes:
        interval_s: Seconds between two snapshots of the feed. Default 1.
        idle_after_s: Seconds after which a held, idle GPU is reported. Default 600.
        elsewhere: Why files and processes of the shown work are not read on this machine, such as
            ``it is on another machine``; empty if they are.
        readonly: Whether all actions that stop work are off, as for a replay.
        light: Use dark text on a light background. Default: light text on dark.
        ascii_only: Whether to draw with ASCII alone. Always on where the terminal has no UTF-8.
    """

    interval_s: float = 1.0
    idle_after_s: float = 600.0
    elsewhere: str = ""
    readonly: bool = False
    light: bool = False
    ascii_only: bool = False


def can_show_screen(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a screen can be shown here, on a capable terminal or in a browser.

    Args:
        environment: Environment with ``TERM`` and ``TEXTUAL_DRIVER``. Default: ``os.environ``.
    """
    if _BROWSER in environment:
        return True
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
    return is_terminal and environment.get("TERM", "dumb") not in ("dumb", "unknown", "")


def run_screen(feed: Feed, options: ScreenOptions) -> None:
    """Show a feed's snapshots until the user quits.

    A thread reads the feed. If the feed ends by itself, its last snapshot stays.

    Args:
        feed: Source of the snapshots. Closed at the end.
        options: Colours, intervals and permissions of the screen.

    Raises:
        MissingExtraError: Textual is not installed.
    """
    with explained_imports("watch"):
        from tarmac.monitor.screen.app import TopApp  # noqa: PLC0415 - an extra

    encoding = _encoding()
    if encoding != "utf-8":
        options = dataclasses.replace(options, ascii_only=True)
    app = TopApp(feed, options, encoding)
    app.run()
    if app.error is not None:
        raise app.error


def serve_in_browser(arguments: Sequence[str], *, port: int = 0) -> None:
    """Serve the screen to this machine's browsers, until SIGINT or SIGTERM.

    Each opened page starts a new ``tarmac top ARGUMENTS``. The address, printed first, has a token
    that is random for each call. The server refuses requests without the token.

    Args:
        arguments: Arguments of ``tarmac top``, without ``--web``.
        port: Port on 127.0.0.1; 0 for any free port. Default 0.

    Raises:
        MissingExtraError: textual-serve is not installed.
    """
    with explained_imports("watch"):
        from tarmac.monitor.screen.web import serve  # noqa: PLC0415 - an extra

    serve(arguments, port=port)


def _encoding() -> str:
    """Return the encoding of Textual's output: standard error, or a page's socket."""
    if _BROWSER in os.environ:
        return "utf-8"
    return codecs.lookup(sys.stderr.encoding or "ascii").name

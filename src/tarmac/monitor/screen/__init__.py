"""The screen of ``tarmac top``, by Textual: views, plots, logs, and stopping one's own work."""

from __future__ import annotations

import codecs
import dataclasses
import os
import sys
from typing import TYPE_CHECKING

from tarmac.distribution import explained_imports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.monitor.feed import Feed

__all__ = ["ScreenOptions", "can_show_screen", "run_screen", "serve_in_browser"]

# By this variable textual-serve has a program draw for a page.
_BROWSER = "TEXTUAL_DRIVER"


@dataclasses.dataclass(frozen=True)
class ScreenOptions:
    """How the screen looks and what it allows.

    Attributes:
        interval_s: Between two readings; what the feed was given, to be shown.
        idle_after_s: A GPU that is held and does nothing is news after so many seconds.
        elsewhere: Why files and processes of what is shown are not to be looked for on this
            machine, such as ``it is on another machine``; empty where it is here and now.
        readonly: Nothing can be stopped from it. A replay is to be shown so.
        light: Use dark text on a light background. Default: light text on dark.
        ascii_only: Draws with ASCII alone; so it does anyway where the terminal has no UTF-8.
    """

    interval_s: float = 1.0
    idle_after_s: float = 600.0
    elsewhere: str = ""
    readonly: bool = False
    light: bool = False
    ascii_only: bool = False


def can_show_screen(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a screen can be shown here: on a terminal that can, or to a page of a browser.

    Args:
        environment: Environment with ``TERM`` and ``TEXTUAL_DRIVER``. Default: ``os.environ``.
    """
    if _BROWSER in environment:
        return True
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
    return is_terminal and environment.get("TERM", "dumb") not in ("dumb", "unknown", "")


def run_screen(feed: Feed, options: ScreenOptions) -> None:
    """Show a feed's snapshots until the user leaves.

    The feed is read in a thread of its own and closed at the end; where it ends by itself, its last
    snapshot stays.

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

    Each page that is opened starts ``tarmac top ARGUMENTS`` anew. The address, printed first, holds
    a token that is drawn anew each time; who does not know it is refused.

    Args:
        arguments: What ``tarmac top`` is given, without ``--web``.
        port: On 127.0.0.1; 0 for any that is free.

    Raises:
        MissingExtraError: textual-serve is not installed.
    """
    with explained_imports("watch"):
        from tarmac.monitor.screen.web import serve  # noqa: PLC0415 - an extra

    serve(arguments, port=port)


def _encoding() -> str:
    """Return the encoding of what Textual writes to: standard error, or a page's socket."""
    if _BROWSER in os.environ:
        return "utf-8"
    return codecs.lookup(sys.stderr.encoding or "ascii").name

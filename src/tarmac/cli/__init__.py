"""The command line: one module per command, which parses, calls a package and prints.

Commands are imported when they are called, so that ``tarmac --help`` loads no framework.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; see `tarmac.cli.entry.main`.

    Args:
        arguments: Arguments of the command line, for tests. Default: ``sys.argv[1:]``.
    """
    try:
        # Imported here: loading takes long enough to be interrupted, and only this reports it.
        from tarmac.cli import entry
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    entry.main(arguments)

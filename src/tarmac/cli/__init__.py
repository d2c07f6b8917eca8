"""The command line: one module per command, each parsing, calling its room and rendering.

Commands are imported when they are called, so that ``tarmac --help`` loads no framework.
"""

from tarmac.cli.entry import main

__all__ = ["main"]

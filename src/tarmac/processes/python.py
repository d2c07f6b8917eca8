"""The command line of Tarmac's own Python processes.

With ``-m`` and with ``-c``, Python searches the current directory for modules first. A user's
``types.py`` there would replace the standard library's in every process that Tarmac starts.

Example:
    >>> python_command("tarmac", "top", python="python3")
    ['python3', '-P', '-m', 'tarmac', 'top']
"""

from __future__ import annotations

import sys


def python_command(module: str, *arguments: str, python: str | None = None) -> list[str]:
    """Return the command that runs an installed module, whatever the current directory contains.

    Args:
        module: Name of the module, as for ``python -m``.
        arguments: Arguments of the module, ``sys.argv[1:]``.
        python: Interpreter of at least Python 3.11, which ``-P`` needs. Default: this process's.
    """
    return [python or sys.executable, "-P", "-m", module, *arguments]

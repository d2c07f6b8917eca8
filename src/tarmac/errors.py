"""Errors for the user: what is wrong, where, and what to do next.

Example:
    >>> str(RequestError("batch_size is 0, expected at least 1"))
    'batch_size is 0, expected at least 1'
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import PurePath

from tarmac.wording import in_one_line

# A byte of a path that is not UTF-8, as Python decodes it.
_BYTE = re.compile("[\udc80-\udcff]")


class TarmacError(Exception):
    """The work failed for a reason that a user can act on; the command line exits with 1.

    Args:
        message: What is wrong and where, in one line.
        hint: What to do next: commands to type or a choice to make. May span several lines.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


class RequestError(TarmacError):
    """The request itself was wrong, and nothing was started; the command line exits with 2."""

    exit_code = 2


class Interrupted(TarmacError):  # noqa: N818 - an interruption is no error
    """The work was stopped by Ctrl-C or SIGTERM; the command line exits with 130.

    Shells report 130 for a program that SIGINT ended. The hint says how to resume.
    """

    exit_code = 130


class PeerFailed(TarmacError):  # noqa: N818 - it is not this process's error
    """Another process of a training failed and reports the reason; this process cannot go on."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; its type's name if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def quoted(*values: object) -> str:
    r"""Return values as shell words, for a command that a message advises.

    Words with control characters or bytes that are not UTF-8 use the ``$'...'`` quotes of bash and
    zsh. A path that starts with ``-`` gets a leading ``./``, so that it is no option.

    Example:
        >>> f"tarmac run --resume {quoted('runs/a b')}"
        "tarmac run --resume 'runs/a b'"
        >>> print(quoted("a\n\x1b[2J"))
        $'a\x0a\x1b[2J'
    """
    return " ".join(_quoted(_no_option(value)) for value in values)


def _no_option(value: object) -> str:
    text = str(value)
    return f"./{text}" if isinstance(value, PurePath) and text.startswith("-") else text


def _quoted(text: str) -> str:
    if in_one_line(text) == text and not _BYTE.search(text):
        return shlex.quote(text)
    characters = (
        "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
        if in_one_line(character) != character or _BYTE.match(character) or character in "'\\"
        else character
        for character in text
    )
    return f"$'{''.join(characters)}'"


def reason_of(error: BaseException) -> str:
    """Return the reason of a failure for its record: the message, exit code or error type."""
    # sys.exit(1) leaves nothing but the number.
    if isinstance(error, SystemExit):
        return f"the program exited with {error.code}"
    return str(error) or type(error).__name__


def short_reason(error: BaseException) -> str:
    """Return an error's message; for an error of the system, without number and path.

    Example:
        >>> short_reason(PermissionError(13, "Permission denied", "/etc/shadow"))
        'Permission denied'
    """
    return getattr(error, "strerror", None) or str(error)


def without_native_stack(text: str) -> str:
    """Return an error's text without the C++ frames that PyTorch adds to some."""
    return text.partition("Exception raised from ")[0].rstrip().rstrip('"').rstrip()


def unknown_name(
    kind: str, name: str, valid: Mapping[str, str], *, meant: str | None = None
) -> RequestError:
    """Return the error for an unknown name.

    Args:
        kind: Kind of the name, such as ``"workload"``.
        name: Name that was not recognised, as the user typed it.
        valid: Valid names, each with a short text (a default, a summary) that may be empty.
        meant: Valid name to suggest. Default: the nearest by its letters.

    Returns:
        An error that suggests the nearest name and lists all valid ones.

    Example:
        >>> print(unknown_name("workload", "mnist-mpl", {"mnist-mlp": "", "mnist-cnn": ""}))
        unknown workload 'mnist-mpl', did you mean 'mnist-mlp'?
        Valid: mnist-cnn, mnist-mlp
    """
    message = f"unknown {kind} {name!r}"
    nearest = [meant] if meant is not None else difflib.get_close_matches(name, valid, n=1)
    if nearest:
        message += f", did you mean {nearest[0]!r}?"
    if any(valid.values()):
        width = max(map(len, valid))
        lines = [f"  {key:<{width}}  {word}".rstrip() for key, word in valid.items()]
        return RequestError(message, hint="\n".join(["Valid:", *lines]))
    return RequestError(message, hint=f"Valid: {', '.join(sorted(valid)) or 'none'}")

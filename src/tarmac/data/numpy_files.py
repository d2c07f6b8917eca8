"""Read NumPy files from untrusted sources; every problem is a TarmacError."""

from __future__ import annotations

import contextlib
import errno
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.errors import TarmacError, short_reason


@contextlib.contextmanager
def numpy_errors(what: str) -> Iterator[None]:
    """Turn the errors of NumPy's readers for a damaged or hostile file into a TarmacError.

    NumPy raises nearly anything: ValueError, EOFError, BadZipFile, TokenError and SyntaxError for
    a header, MemoryError for its shape. An OSError passes, except EINVAL for a wrong offset.

    Args:
        what: Beginning of the message: the file, and that it cannot be read.
    """
    try:
        yield
    except TarmacError:
        raise
    except tokenize.TokenError as error:
        raise TarmacError(f"{what}: its header does not end") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise TarmacError(f"{what}: {short_reason(error) or type(error).__name__}") from error


def read_member(archive: np.lib.npyio.NpzFile, name: str, path: Path) -> NDArray[Any]:
    """Return an array of an ``.npz``.

    Raises:
        TarmacError: The member cannot be read, or is no array: an archive may hold other files.
    """
    with numpy_errors(f"{path}: {name} cannot be read"):
        member = archive[name]
    if not isinstance(member, np.ndarray):
        raise TarmacError(f"{path}: {name} is not an array, expected {name}.npy in the archive")
    return member

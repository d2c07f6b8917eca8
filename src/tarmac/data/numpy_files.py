"""NumPy's files from anywhere: whatever is wrong in one is an error of ours."""

from __future__ import annotations

import contextlib
import errno
import tokenize
from typing import TYPE_CHECKING, Any

import numpy as np

from tarmac.errors import TarmacError, short_reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray


@contextlib.contextmanager
def numpy_errors(what: str) -> Iterator[None]:
    """Turn what NumPy's readers raise for a damaged or hostile file into a TarmacError.

    They raise nearly anything: ValueError, EOFError, BadZipFile, TokenError and SyntaxError of a
    header, MemoryError of the shape that it gives. An OSError passes, but for a wrong offset's.

    Args:
        what: What the message begins with: the file, and that it cannot be read.
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
        TarmacError: It cannot be read, or is none: any archive may hold other files.
    """
    with numpy_errors(f"{path}: {name} cannot be read"):
        member = archive[name]
    if not isinstance(member, np.ndarray):
        raise TarmacError(f"{path}: {name} is no array, expected {name}.npy in the archive")
    return member

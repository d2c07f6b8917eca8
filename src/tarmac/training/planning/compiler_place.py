"""Whether PyTorch's compiler can work, and safely, in the directory for temporary files.

It keeps what it makes there in ``torchinductor_USER``, and runs what it finds there.
``TORCHINDUCTOR_CACHE_DIR`` moves a part of that alone: compiled headers stay.
"""

from __future__ import annotations

import getpass
import os
import re
import stat
import tempfile
from pathlib import Path

from tarmac.files import foreign_owner

# The compiler puts its paths into command lines as they are.
_FIT = re.compile(r"[\w./+@=,-]+", re.ASCII)


def directory_of_compiler() -> Path:
    """Return `torch._inductor.runtime.cache_dir_utils.default_cache_dir()`.

    To import that takes a second and makes the directory, or fails where it cannot be made.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid_{os.getuid()}"
    name = re.sub(r'[\\/:*?"<>|]', "_", user)
    return Path(tempfile.gettempdir(), f"torchinductor_{name}")


def why_no_compiler() -> str | None:
    """Return what speaks against the compiler here, in words, or None."""
    place = directory_of_compiler()
    if not _FIT.fullmatch(str(place)):
        return f"PyTorch's compiler does not quote paths, and it works in {str(place)!r}"
    # Who can write the directory above could exchange it, but for the sticky bit.
    above = place.parent.stat().st_mode
    if above & stat.S_IWOTH and not above & stat.S_ISVTX:
        return f"PyTorch's compiler runs what is in {place}, and everybody can write {place.parent}"
    try:
        there = place.lstat()
    except FileNotFoundError:
        return None
    owner = foreign_owner(place)
    reasons = {
        f"works in {place}, which is no directory": not stat.S_ISDIR(there.st_mode),
        f"runs what is in {place}, which belongs to {owner}": owner is not None,
        f"runs what is in {place}, which everybody can write": there.st_mode & stat.S_IWOTH,
        f"works in {place}, which cannot be written": not os.access(place, os.W_OK | os.X_OK),
    }
    return next(
        (f"PyTorch's compiler {reason}" for reason, holds in reasons.items() if holds), None
    )

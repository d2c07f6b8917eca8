"""Check whether PyTorch's compiler can work safely in the directory for temporary files.

The compiler writes its files to ``torchinductor_USER`` there, and executes files it finds there.
``TORCHINDUCTOR_CACHE_DIR`` moves only a part of these files: compiled headers stay.
"""

from __future__ import annotations

import getpass
import os
import re
import stat
import tempfile
from pathlib import Path

from tarmac.files import foreign_owner

# The compiler puts its paths into command lines without quotes.
_FIT = re.compile(r"[\w./+@=,-]+", re.ASCII)


def directory_of_compiler() -> Path:
    """Return `torch._inductor.runtime.cache_dir_utils.default_cache_dir()`.

    Importing that function takes a second and creates the directory, or fails if it cannot.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid_{os.getuid()}"
    name = re.sub(r'[\\/:*?"<>|]', "_", user)
    return Path(tempfile.gettempdir(), f"torchinductor_{name}")


def why_no_compiler() -> str | None:
    """Return the reason why the compiler cannot work here; None if it can."""
    place = directory_of_compiler()
    if not _FIT.fullmatch(str(place)):
        return f"PyTorch's compiler does not quote paths, and it works in {str(place)!r}"
    # Without the sticky bit, any user who can write to the parent could replace the directory.
    above = place.parent.stat().st_mode
    if above & stat.S_IWOTH and not above & stat.S_ISVTX:
        return f"PyTorch's compiler runs what is in {place}, and everybody can write {place.parent}"
    try:
        there = place.lstat()
    except FileNotFoundError:
        return None
    owner = foreign_owner(place)
    reasons = {
        f"works in {place}, which is not a directory": not stat.S_ISDIR(there.st_mode),
        f"runs what is in {place}, which belongs to {owner}": owner is not None,
        f"runs what is in {place}, which everybody can write": there.st_mode & stat.S_IWOTH,
        f"works in {place}, which cannot be written": not os.access(place, os.W_OK | os.X_OK),
    }
    return next(
        (f"PyTorch's compiler {reason}" for reason, holds in reasons.items() if holds), None
    )

"""What tests install from package indices, once into the user's cache."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import platformdirs
import pytest
from filelock import FileLock

_CACHE = platformdirs.user_cache_path("tarmac") / "hkube-tests"


@contextlib.contextmanager
def kept(name: str) -> Iterator[tuple[Path, Path | None]]:
    """Give a directory of the cache, and one to fill in its place where it is not there yet."""
    path = _CACHE / name
    _CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if path.is_dir():
            yield path, None
            return
        with tempfile.TemporaryDirectory(dir=_CACHE) as unfinished:
            inner = Path(unfinished) / "it"
            inner.mkdir()
            yield path, inner
            inner.rename(path)


def install(what: str, command: Sequence[str | Path]) -> None:
    """Run an installer; skip the test, with its last words, where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = ((done.stderr + done.stdout).strip().splitlines() or ["no reason was given"])[-1]
        shown = shlex.join(map(str, command))
        pytest.skip(f"{what} cannot be installed: {last}; where the index is reached: {shown}")

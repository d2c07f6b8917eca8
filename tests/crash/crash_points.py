"""Runs the command line in processes that crash at the n-th call that changes a directory.

shell = CrashShell(build_shim(tmp_path), tmp_path / "work")
whole = shell.run("train", "digits-mlp")
ended = shell.run("train", "digits-mlp", crash=Crash("kill", whole.num_calls // 2))
assert ended.returncode == -9, ended.call

`crash_shim.c` counts the calls, such as write, rename, unlink, mkdir and fsync, of all processes of
Python that the command starts.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from forked import run_python
from waiting import limit_s

# SIGKILL before the call; half of a write, then SIGKILL; EIO once; ENOSPC from then on.
KINDS = ("kill", "torn", "error", "full")

SHIM = "crash_shim.so"
_SOURCE = Path(__file__).parent / "crash_shim.c"
_COUNT_BYTES = 8


@dataclasses.dataclass(frozen=True)
class Crash:
    """A crash at a call that changes the directory.

    Attributes:
        kind: One of `KINDS`.
        at: The call's number, from 1.
    """

    kind: str
    at: int


@dataclasses.dataclass(frozen=True)
class Ended:
    """A command that has ended.

    Attributes:
        returncode: As `subprocess` has it.
        output: Standard output and standard error.
        num_calls: Calls that changed the directory.
        call: The call that crashed and its path; empty where it did not come to that.
    """

    returncode: int
    output: str
    num_calls: int
    call: str


def build_shim(directory: Path) -> Path:
    """Compile `SHIM`, which counts and crashes, and return it; skip where nothing compiles."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is here; provide one: sudo apt install gcc")
    library = directory / SHIM
    command = [compiler, "-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE", "-o", library, _SOURCE]
    subprocess.run([*command, "-ldl"], check=True)
    return library


class CrashShell:
    """Runs `tarmac` in a directory whose changes are counted.

    Args:
        library: Of `build_shim`.
        directory: The working directory. The user's cache, state and datasets lie in it too.
    """

    def __init__(self, library: Path, directory: Path) -> None:
        self.directory = directory
        self._calls = directory.with_suffix(".calls")
        self._variables = os.environ | {
            "LD_PRELOAD": str(library),
            "CRASH_DIRECTORY": str(directory),
            "CRASH_CALLS": str(self._calls),
            "TARMAC_DATA": str(directory / "data"),
        }
        for place in ("CACHE", "STATE", "CONFIG"):
            self._variables[f"XDG_{place}_HOME"] = str(directory / place.lower())

    def run(self, *words: str, crash: Crash | None = None) -> Ended:
        """Run `tarmac WORDS` to its end.

        Args:
            words: What follows `tarmac`.
            crash: Default: none.
        """
        self._calls.write_bytes(bytes(mmap.PAGESIZE))
        at = {"CRASH_AT": str(crash.at if crash else 0), "CRASH_KIND": crash.kind if crash else "-"}
        done = run_python(
            *("-m", "tarmac", *words),
            cwd=self.directory,
            env=self._variables | at,
            timeout=limit_s(200),
        )
        if done.returncode == 2 and "which is not installed" in done.stderr:
            pytest.skip(" ".join(done.stderr.removeprefix("error: ").split()))
        page = self._calls.read_bytes()
        call = page[_COUNT_BYTES:].partition(b"\0")[0].decode(errors="replace")
        num_calls = int.from_bytes(page[:_COUNT_BYTES], "little")
        return Ended(done.returncode, done.stdout + done.stderr, num_calls, call)

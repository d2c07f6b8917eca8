"""What tests of watching have in common."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

# As ssh takes its words: options, then "--", the host and a command for its shell.
_SSH = """#!/bin/sh
while [ "$1" != "--" ]; do shift; done
HOST="$2"; export HOST; shift 2
case "$HOST" in
    refused) echo "ssh: connect to host refused port 22: Connection refused" >&2; exit 255 ;;
    silent) exec sleep 600 ;;
esac
exec sh -c "$*"
"""


@pytest.fixture
def fake_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put an ssh first on PATH that runs commands here.

    Returns a function that puts another program there too, by its name and a shell's script; the
    variable ``HOST`` is the host's name.
    """
    programs = tmp_path / "programs"
    programs.mkdir()

    def put(name: str, script: str) -> Path:
        path = programs / name
        path.write_text(script)
        path.chmod(0o755)
        return path

    put("ssh", _SSH)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return put

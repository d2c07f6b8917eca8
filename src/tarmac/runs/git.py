"""The state of the git repository that a run was started from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tarmac.runs.record import GitState

# A repository on a slow network disk must not hold up a training.
_TIMEOUT_S = 5


def git_state(directory: Path) -> GitState | None:
    """Return the state of a directory's repository; None without git or repository."""
    commit = _git(directory, "rev-parse", "HEAD")
    status = _git(directory, "status", "--porcelain")
    if not commit or status is None:
        return None
    branch = _git(directory, "rev-parse", "--abbrev-ref", "HEAD")
    return GitState(commit=commit, branch=None if branch == "HEAD" else branch, dirty=bool(status))


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None

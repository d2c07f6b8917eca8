"""OpenPBS through its commands. Output that is no answer becomes `Silent`."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from tarmac.executors.queueing import Accepted, Full, Refused, Silent, TooLarge

_TIMEOUT_S = 60.0

# ``12.server``, the array ``12[].server``, and its subjob ``12[3].server``.
_JOB = re.compile(r"(\d+)(?:\[(\d*)\])?(\.\S+)?")

# Messages of OpenPBS. Where a command does not reach the server or loses it, the server may have
# carried out the request.
_NO_ANSWER = re.compile(r"connect|timed out|communication|not responding|shutting", re.IGNORECASE)
_TOO_LARGE = re.compile(r"array job exceeds", re.IGNORECASE)
_FULL = re.compile(r"would exceed|maximum number of jobs", re.IGNORECASE)
_GONE = re.compile(r"unknown job id|has finished|invalid for (?:finished|state)", re.IGNORECASE)
_NO_HISTORY = re.compile(r"job history", re.IGNORECASE)


def _call(name: str, *words: str, script: str = "") -> subprocess.CompletedProcess[str] | Silent:
    try:
        done = subprocess.run(
            [name, *words],
            input=script,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Silent(f"{name}: {error}")
    if done.returncode and _NO_ANSWER.search(done.stderr):
        return Silent(f"{name}: {done.stderr.strip()}")
    return done


def submit(*words: str, script: str) -> Accepted | Full | TooLarge | Refused | Silent:
    """Return the answer to qsub, which prints the job's identifier."""
    done = _call("qsub", *words, script=script)
    if isinstance(done, Silent):
        return done
    job, message = done.stdout.strip(), done.stderr.strip()
    if not done.returncode and _JOB.fullmatch(job):
        return Accepted(job)
    if not done.returncode or not message.startswith("qsub:"):
        return Silent(f"qsub: {message or job or 'printed nothing'}")
    if _TOO_LARGE.search(message):
        return TooLarge(message)
    return Full(message) if _FULL.search(message) else Refused(message)


def jobs(*identifiers: str) -> dict[str, Any] | Silent:
    """Return jobs and subjobs by identifier, ended ones too where the server keeps a history."""
    words = ("-t", "-f", "-F", "json", *identifiers)
    done = _call("qstat", "-x", *words)
    if not isinstance(done, Silent) and _NO_HISTORY.search(done.stderr):
        done = _call("qstat", *words)
    answer = _json("qstat", done)
    return answer if isinstance(answer, Silent) else answer.get("Jobs", {})


def show(name: str, *words: str) -> dict[str, Any] | Silent:
    """Return what ``qstat -B`` or ``pbsnodes -a`` shows."""
    return _json(name, _call(name, *words, "-F", "json"))


def change(name: str, *words: str) -> Silent | None:
    """Run qdel or qalter; jobs that have ended stay as they are."""
    done = _call(name, *words)
    if isinstance(done, Silent):
        return done
    others = [line for line in done.stderr.splitlines() if not _GONE.search(line)]
    return Silent(" ".join(others)) if done.returncode and others else None


def unit_of(identifier: str) -> tuple[str, int]:
    """Return the identifier of a unit's chunk and the unit's number; -1 for a whole array."""
    match = _JOB.fullmatch(identifier)
    if match is None or match[2] is None:
        return identifier, 0
    return f"{match[1]}[]{match[3] or ''}", int(match[2] or -1)


def seconds(time: str) -> float:
    """Return the seconds of a time such as ``01:30:00``."""
    hours, minutes, rest = time.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(rest)


def _json(name: str, done: subprocess.CompletedProcess[str] | Silent) -> dict[str, Any] | Silent:
    if isinstance(done, Silent):
        return done
    # qstat fails where it knows only some of the jobs.
    if done.returncode and not done.stdout and _GONE.search(done.stderr):
        return {}
    try:
        # A job's variables may contain line breaks.
        answer = json.loads(done.stdout, strict=False)
    except ValueError:
        answer = None
    is_answer = isinstance(answer, dict)
    return answer if is_answer else Silent(f"{name}: {done.stderr.strip() or 'no JSON'}")

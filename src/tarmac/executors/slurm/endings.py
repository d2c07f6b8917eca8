"""Turns the end of a Slurm job into a cause and words, from its state and its own output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tarmac.executors.events import Cause
from tarmac.executors.queueing import Ending
from tarmac.slurm import Accounted

# slurmstepd prints, in all versions: slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT
# 2026-01-02T03:04:05 DUE TO TIME LIMIT ***
_CANCELLED = re.compile(
    r"\*\*\* (?:JOB|STEP) \S+ ON (?P<host>\S+) CANCELLED AT (?P<when>[^\s*]+)"
    r"(?: DUE TO (?P<why>[^*]+?))?,? ?\*\*\*"
)
_TIME_LIMIT = "the time limit of its job in Slurm"
_BY_WORDS: tuple[tuple[str, Cause, str], ...] = (
    ("TIME LIMIT", "timeout", _TIME_LIMIT),
    ("PREEMPTION", "preempted", "a job of higher priority preempted it"),
    ("NODE FAILURE", "node", "its node failed"),
    ("REQUEUE", "evicted", "Slurm has requeued it"),
    ("MEMORY", "memory", "it took more memory than its job had in Slurm"),
)

# Where slurmd itself limits memory (slurm.conf(5), OverMemoryKill), only the job's output says so:
# error: StepId=17.batch exceeded memory limit (459034624 > 268435456), being killed
_OVER_MEMORY = re.compile(
    r"exceeded (?:job |step )?memory limit(?: \((?P<had>\d+) > (?P<limit>\d+)\))?", re.IGNORECASE
)
# Where the kernel limits it: error: Detected 1 oom_kill event in StepId=5.batch. (Older: oom-kill.)
_KILLED_FOR_MEMORY = re.compile(r"\boom[-_ ]kill", re.IGNORECASE)

_CAUSES: Mapping[str, Cause] = {
    "timeout": "timeout",
    "out_of_memory": "memory",
    "preempted": "preempted",
    "node_fail": "node",
    "cancelled": "cancelled",
    "failed": "start",
    "other": "lost",
}

# Slurm's signal number for a job whose output file or directory it cannot open.
_NO_DIRECTORY = 53

# Slurm warns a job a minute before its time limit, and up to a minute earlier than that (sbatch(1),
# --signal). The job's reaction takes a while.
_NEAR_LIMIT_S = 150.0


def accounted_ending(
    accounted: Accounted, printed: str, *, run: Path, asked_for_time: bool
) -> Ending | None:
    """Return how a job ended according to Slurm; None while it has not ended.

    Args:
        accounted: State, exit code and limits of the job, as Slurm reports them.
        printed: Last text that the job itself has printed.
        run: The run's directory, for messages.
        asked_for_time: Whether the job asked for its time limit; otherwise it is the partition's.
    """
    near = _time_words_if_near(accounted, asked_for_time)
    if accounted.state == "completed":
        return Ending(None, accounted.word, accounted.nodes, near_limit=near)
    cause = _CAUSES.get(accounted.state)
    if cause is None:
        return None
    if accounted.state in ("failed", "cancelled"):
        memory = _memory_words(printed)
        if memory:
            return Ending("memory", memory, accounted.nodes)
    words = _words(accounted, printed, run=run, asked_for_time=asked_for_time)
    return Ending(cause, words, accounted.nodes, near_limit=near)


def printed_ending(printed: str) -> Ending | None:
    """Return the ending that slurmstepd has printed; None where it has not ended the job."""
    match = None
    for line in _CANCELLED.finditer(printed):
        match = line
    host = match["host"] if match else ""
    memory = _memory_words(printed)
    if memory:
        return Ending("memory", memory, host)
    if match is None:
        return None
    why = (match["why"] or "").upper()
    for words, cause, reason in _BY_WORDS:
        if words in why:
            return Ending(cause, reason, host, match["when"])
    return Ending("cancelled", "cancelled with scancel", host, match["when"])


def _words(accounted: Accounted, printed: str, *, run: Path, asked_for_time: bool) -> str:
    on = f" on {accounted.nodes}" if accounted.nodes else ""
    match accounted.state:
        case "timeout":
            return _time_words(accounted, asked_for_time=asked_for_time)
        case "out_of_memory":
            most = accounted.max_rss_bytes
            seen = f"; at most {_mib(most)} were seen" if most else ""
            return f"it took more memory than its job had in Slurm{seen}"
        case "preempted":
            return f"a job of higher priority preempted it{on}"
        case "node_fail":
            return f"its node failed{on} ({accounted.word})"
        case "cancelled":
            _, _, who = accounted.word.partition(" by ")
            return f"cancelled by UID {who} with scancel" if who else "cancelled with scancel"
        case _:
            return _failure_words(accounted, printed, run, on)


def _failure_words(accounted: Accounted, printed: str, run: Path, on: str) -> str:
    code = f"exit code {accounted.exit_code}"
    ended = f"signal {accounted.signal}" if accounted.signal else code
    if accounted.signal == _NO_DIRECTORY and not printed:
        return (
            f"the run's directory {run} is not there{on}, or cannot be written to; make "
            "the run where the nodes see it: --output DIRECTORY, or TARMAC_RUNS"
        )
    words = f"Slurm says {accounted.word} ({ended}){on}"
    return f"{words}, and its job printed: {printed}" if printed else words


def _time_words(accounted: Accounted, *, asked_for_time: bool) -> str:
    limit = accounted.time_limit_s
    words = _TIME_LIMIT if limit is None else f"{_TIME_LIMIT}, {limit / 60:g} min"
    if asked_for_time:
        return words
    partition = f"partition {accounted.partition}" if accounted.partition else "its partition"
    return f"{words}, which {partition} sets by default: set `time` in options.slurm"


def _time_words_if_near(accounted: Accounted, asked_for_time: bool) -> str | None:
    """Return the nearly reached time limit in words; empty if far from it, None if unknown."""
    limit, ran = accounted.time_limit_s, accounted.ran_s
    if limit is None or ran is None:
        return None
    if limit - ran > _NEAR_LIMIT_S:
        return ""
    return _time_words(accounted, asked_for_time=asked_for_time)


def _memory_words(printed: str) -> str:
    """Return slurmstepd's message about too much memory, in words; empty for none."""
    match = _OVER_MEMORY.search(printed)
    if match is None:
        killed = _KILLED_FOR_MEMORY.search(printed)
        return "it took more memory than its job had in Slurm" if killed else ""
    if match["had"] is None:
        return "it took more memory than its job had in Slurm"
    had, limit = int(match["had"]), int(match["limit"])
    return f"it took {_mib(had)} of memory, and its job had {_mib(limit)} in Slurm"


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.0f} MiB"

"""Refuses to resume a run whose tasks are on another cluster, and names that cluster."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

from tarmac.errors import RequestError, quoted
from tarmac.executors.queueing.chunks import ChunkRecord
from tarmac.executors.queueing.clusters import ClusterId
from tarmac.executors.runners import RunnerState
from tarmac.files import Fields, parse_json, read_regular, write_json

# In the run's directory: identity of the cluster of the last runner.
_RUNNER_CLUSTER = "runners/where.json"


def refuse_other_cluster(
    run: Path,
    engine: str,
    left: Iterable[ChunkRecord],
    here: ClusterId | None,
    has: Callable[[ChunkRecord], bool],
) -> None:
    """Raise a RequestError where a run has left tasks on another cluster.

    Args:
        run: Directory of the run that is to be resumed.
        engine: Name of the engine in messages, such as ``Slurm``.
        left: Chunks that are not over.
        here: The cluster that commands reach; None while it does not identify itself.
        has: Returns whether this cluster has a chunk's jobs. Called where a cluster of the same
            name has another address, as its controller may have moved.
    """
    for chunk in left:
        there = chunk.cluster
        if here is None or there is None or not there.differs(here):
            continue
        is_same_name = bool(there.name) and there.name == here.name
        if is_same_name and has(chunk):
            continue
        names = _names_of(there, here)
        way = f"{there.way} " if there.way else ""
        raise RequestError(
            f"tasks of {run.name} are on the {engine} cluster {names[0]}, and this is {names[1]}",
            hint=f"On {names[0]}, resume: {way}tarmac run --resume {quoted(run)}\n"
            f"Or cancel them there first: {way}tarmac cancel {quoted(run)}",
        )


def note_runner_cluster(run: Path, here: ClusterId | None) -> None:
    """Record the cluster that a run's runner is submitted to.

    Args:
        run: Directory of the run that the runner works for.
        here: The cluster that commands reach; None while it does not identify itself.

    Raises:
        StorageError: The file cannot be written.
    """
    write_json(run / _RUNNER_CLUSTER, {} if here is None else dataclasses.asdict(here))


def runner_elsewhere(
    run: Path, place: str, engine: str, here: ClusterId | None
) -> RunnerState | None:
    """Return the state of a runner on another cluster; None where it was submitted to this one.

    Args:
        run: Directory of the run that the runner works for.
        place: The engine's name for the runner's job.
        engine: Name of the engine in messages, such as ``Slurm``.
        here: The cluster that commands reach; None while it does not identify itself.
    """
    noted = Fields({})
    # Earlier versions wrote no such file.
    with contextlib.suppress(OSError, ValueError):
        noted = Fields.of(parse_json(read_regular(run / _RUNNER_CLUSTER)))
    there = ClusterId(noted.text("name") or "", noted.text("uid") or "")
    if here is None or not there.differs(here):
        return None
    names = _names_of(there, here)
    words = f"job {place} is on the {engine} cluster {names[0]}, and this is {names[1]}"
    return RunnerState("elsewhere", words)


def _names_of(there: ClusterId, here: ClusterId) -> tuple[str, str]:
    """Return distinct names for two clusters, with addresses where the names are equal."""
    if there.name and there.name == here.name:
        address, own = (cluster.uid.rpartition("@")[2] for cluster in (there, here))
        return f"{here.name} ({address})", f"{here.name} ({own})"
    return there.name or there.uid, here.name or here.uid

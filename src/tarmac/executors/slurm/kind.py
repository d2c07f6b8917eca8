"""The entry for Slurm in the table of executors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tarmac.errors import RequestError, TarmacError
from tarmac.executors.elements import refuse_unknown_containers
from tarmac.executors.interface import Executor, ExecutorKind, Site
from tarmac.executors.queueing import (
    ChunkFiles,
    Patience,
    Preparation,
    QueueingExecutor,
    chunk_size,
)
from tarmac.executors.slurm.engine import SlurmEngine, shape_of
from tarmac.executors.slurm.options import SlurmOptions
from tarmac.executors.slurm.runners import SlurmRunners
from tarmac.node import agent_file
from tarmac.slurm import (
    SILENCE_HINT,
    Limits,
    NoAnswer,
    Request,
    Shape,
    SlurmCommands,
    SlurmNode,
    explain_refusal,
    job_variables,
    partitions_with_gpus,
    write_script,
)
from tarmac.tasks.plan import Task

# Grace period of programs, where the site's KillWait is long enough.
_GRACE_S = 10.0

# Note in a preview without Slurm's commands (slurm.conf(5) has the default).
_UNASKED = """\
# No Slurm has checked this, because its commands are not installed here. An array
# has at most 1,000 elements, the default of MaxArraySize.
"""

# Part of KillWait that the agent needs after its program's end.
_AGENTS_S = 3.0


class SlurmExecutor(QueueingExecutor):
    """Runs the attempts of a run in Slurm's queue.

    Args:
        site: Directory, tasks and settings of the run.
        patience: Seconds to wait for records and for Slurm. Default: those of `Patience`.
        find_again_s: Seconds between two searches for a chunk that Slurm may have.

    Raises:
        RequestError: Slurm does not answer.
    """

    def __init__(
        self, site: Site, *, patience: Patience | None = None, find_again_s: float = 10.0
    ) -> None:
        slurm = SlurmCommands(os.environ)
        limits = _limits(slurm)
        grace_s = max(0.0, min(_GRACE_S, limits.kill_wait_s - _AGENTS_S))
        prepared = Preparation(site, "slurm", grace_s=grace_s)
        engine = SlurmEngine(
            slurm,
            prepared.agent,
            ChunkFiles(site.run),
            job_variables(os.environ),
            _best(site.tasks),
        )
        super().__init__(
            engine,
            site,
            prepared.element,
            spool=prepared.spool,
            patience=patience,
            find_again_s=find_again_s,
        )


def _refuse(tasks: Sequence[Task], fake_gpus: int) -> None:  # noqa: ARG001 - Slurm gives GPUs, pretended or not
    refuse_unknown_containers(tasks, engine="slurm")
    slurm = SlurmCommands(os.environ)
    _limits(slurm)
    best = _best(tasks)
    shapes: dict[Shape, Task] = {}
    for task in tasks:
        shapes.setdefault(shape_of(task, best), task)
    nodes: Sequence[SlurmNode] | NoAnswer = ()
    if any(shape.gpus for shape in shapes):
        nodes = slurm.nodes()
    for shape, task in shapes.items():
        if shape.gpus and isinstance(nodes, NoAnswer):
            continue
        known: Iterable[SlurmNode] = () if isinstance(nodes, NoAnswer) else nodes
        _refuse_shape(slurm, shape, task, known)


def _refuse_shape(
    slurm: SlurmCommands, shape: Shape, task: Task, nodes: Iterable[SlurmNode]
) -> None:
    request = Request(
        name="tarmac-test", shape=shape, command=":", directory=Path("/"), output="test"
    )
    try:
        script = write_script(request, nodes)
    except RequestError as error:
        raise RequestError(f"task {task.name!r}: {error.message}", hint=error.hint) from error
    answer = slurm.test(script)
    # No answer is no refusal.
    if isinstance(answer, str):
        reason, _, advice = explain_refusal(answer).partition("\n")
        # A site may route jobs with GPUs to a partition by itself, so the advice needs a refusal.
        if shape.gpus and not shape.partition:
            advice = " ".join(filter(None, (advice, partitions_with_gpus(nodes))))
        raise RequestError(f"task {task.name!r}: Slurm refuses it: {reason}", hint=advice or None)


def _limits(slurm: SlurmCommands) -> Limits:
    limits = slurm.limits()
    if isinstance(limits, NoAnswer):
        raise RequestError(
            f"Slurm does not answer: {limits.command}: {limits.words}",
            hint=SILENCE_HINT,
        )
    return limits


def _preview(site: Site) -> Iterator[str]:
    slurm = SlurmCommands(os.environ)
    if slurm.is_here:
        _limits(slurm)
    files = ChunkFiles(site.run)
    engine = SlurmEngine(
        slurm, agent_file(site.run), files, {}, _best(site.tasks), knows_site=slurm.is_here
    )
    # Tasks of one spec have one shape: computing a million shapes would take minutes.
    keys: dict[tuple[str, bool], str] = {}
    shapes: dict[str, list[Task]] = {}
    for task in site.tasks:
        whence = task.spec, task.is_last
        if whence not in keys:
            keys[whence] = json.dumps(engine.shape(task))
        shapes.setdefault(keys[whence], []).append(task)
    for key, tasks in shapes.items():
        per_unit = engine.terms(tasks[0]).per_unit
        size = chunk_size(engine, per_unit) * per_unit
        for first in range(0, len(tasks), size):
            attempts = [(task.index, 1) for task in tasks[first : first + size]]
            record = files.make(json.loads(key), attempts, per_unit)
            script = engine.script(record, most_at_once=site.concurrency)
            if isinstance(script, NoAnswer):
                raise TarmacError(
                    f"Slurm does not answer: {script.command}: {script.words}",
                    hint=SILENCE_HINT,
                )
            shebang, _, rest = script.text.partition("\n")
            yield script.text if slurm.is_here else f"{shebang}\n{_UNASKED}{rest}"


def _best(tasks: Iterable[Task]) -> int:
    return max((task.priority for task in tasks), default=0)


def _open(site: Site) -> Executor:
    return SlurmExecutor(site)


SLURM = ExecutorKind(
    "slurm",
    "a Slurm cluster",
    refuse=_refuse,
    open=_open,
    outlives=True,
    options=SlurmOptions,
    preview=_preview,
    runners=SlurmRunners(),
)

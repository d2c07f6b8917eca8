"""The entry for PBS in the table of executors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tarmac.errors import RequestError
from tarmac.executors import Executor, ExecutorKind, Site
from tarmac.executors.queueing import ChunkFiles, Preparation, QueueingExecutor, Silent
from tarmac.jobs import Task
from tarmac_pbs import commands
from tarmac_pbs.engine import PbsEngine, PbsOptions

# PBS sends SIGKILL 10 s after SIGTERM (kill_delay); the agent itself needs some of these.
_GRACE_S = 7.0


def _refuse(tasks: Sequence[Task], fake_gpus: int) -> None:
    del fake_gpus
    answer = commands.show("pbsnodes", "-a")
    if isinstance(answer, Silent):
        raise RequestError(f"PBS does not answer: {answer.words}", hint="qstat -B shows servers.")
    nodes = [node.get("resources_available", {}) for node in answer.get("nodes", {}).values()]
    most = {name: max(int(node.get(name, 0)) for node in nodes) for name in ("ncpus", "ngpus")}
    for task in {task.spec: task for task in tasks}.values():
        wanted = task.resources
        cpus, gpus = math.ceil(wanted.cpus), math.ceil(wanted.gpus)
        if wanted.nodes > 1 or wanted.gpu_type:
            raise RequestError(f"task {task.name!r}: PBS takes one node, and no type of GPUs, here")
        if cpus > most["ncpus"] or gpus > most["ngpus"]:
            raise RequestError(
                f"task {task.name!r}: no node of PBS has {cpus} CPUs and {gpus} GPUs",
                hint=f"The largest have {most['ncpus']} CPUs and {most['ngpus']} GPUs.",
            )


def _open(site: Site) -> Executor:
    prepared = Preparation(site, "pbs", grace_s=_GRACE_S)
    engine = PbsEngine(prepared.agent, ChunkFiles(site.run))
    return QueueingExecutor(engine, site, prepared.element, spool=prepared.spool)


PBS = ExecutorKind(
    "pbs", "a PBS cluster", refuse=_refuse, open=_open, outlives=True, options=PbsOptions
)

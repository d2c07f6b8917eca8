"""Slurm as an engine: chunks are job arrays, units are elements, causes come from job states."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.errors import RequestError
from tarmac.executors.queueing import (
    Accepted,
    ChunkFiles,
    ChunkRecord,
    ClusterId,
    Ending,
    Full,
    Refused,
    Shown,
    Silent,
    Terms,
    UnitName,
)
from tarmac.executors.slurm.endings import accounted_ending, printed_ending
from tarmac.executors.slurm.options import options_of
from tarmac.files import masked_end
from tarmac.slurm import (
    UNIT,
    Accounted,
    Limits,
    NoAnswer,
    Queued,
    Request,
    Script,
    Shape,
    Slurm,
    SlurmNode,
    Unit,
    explain_full,
    explain_reason,
    explain_refusal,
    is_amount_limit,
    is_full,
    write_script,
)
from tarmac.tasks.model import BuiltEnvironment, Container
from tarmac.tasks.plan import Task

# Memory of the agent beside its program, so that the agent's own limit acts before Slurm's.
_AGENT_BYTES = 64 * 2**20

# Time beside a task's timeout: with staging, and without it for the program's end.
_STAGING_S, _ENDING_S = 900.0, 120.0

# A step of priority among a run's own tasks, in the units of sbatch's --nice.
_NICE_PER_PRIORITY = 100
_MAX_NICE = 1_000_000

# The end of a job's own output that messages quote, for a job that failed before its agent began.
_LAST_LINES = 5
_LAST_BYTES = 4096


def cluster_of(limits: Limits | NoAnswer) -> ClusterId | None:
    """Return a cluster's identity, ``ClusterName`` and controller; None where Slurm gives none.

    Clusters that installers set up may all have one name, such as ``parallelcluster``.
    """
    if isinstance(limits, NoAnswer) or not limits.cluster:
        return None
    uid = f"{limits.cluster}@{limits.controller}" if limits.controller else ""
    conf = os.environ.get("SLURM_CONF")
    return ClusterId(limits.cluster, uid, f"SLURM_CONF={shlex.quote(conf)}" if conf else "")


def shape_of(task: Task, best_priority: int = 0) -> Shape:
    """Return the resources and limits that a task's jobs request from Slurm.

    Args:
        task: Task that the jobs run.
        best_priority: Highest priority of the run's tasks; lower ones get a higher nice value.
            Default 0.

    Raises:
        RequestError: The task's options are invalid.
    """
    options, needs = options_of(task), task.resources
    limit_s = options.time
    if limit_s is None and task.timeout_s is not None:
        is_staged = (
            task.inputs
            or task.outputs
            or isinstance(task.environment, Container | BuiltEnvironment)
        )
        is_staged = is_staged or options.check != "off"
        each_s = task.timeout_s + (_STAGING_S if is_staged else _ENDING_S)
        limit_s = each_s * options.per_job
    return Shape(
        cpus=needs.cpus,
        memory_bytes=needs.memory + _AGENT_BYTES if needs.memory else None,
        gpus=needs.gpus,
        gpu_type=options.gpu_type or needs.gpu_type,
        nodes=needs.nodes,
        time_limit_s=limit_s,
        partition=options.partition,
        account=options.account,
        qos=options.qos,
        constraint=options.constraint,
        reservation=options.reservation,
        nice=min(_NICE_PER_PRIORITY * (best_priority - task.priority), _MAX_NICE),
        extra=options.sbatch,
        setup=options.setup,
    )


class SlurmEngine:
    """Slurm as the engine for the chunks of one run.

    Args:
        slurm: Commands of the cluster's Slurm.
        agent: The agent's file, in the run's directory.
        files: Chunk files of the run.
        variables: Environment variables of the jobs.
        best_priority: Highest priority of the run's tasks; lower ones get a higher nice value.
            Default 0.
        knows_site: Whether Slurm's commands can list the nodes, for scripts that ask for GPUs.
    """

    title = "Slurm"
    keeps_units = True

    def __init__(
        self,
        slurm: Slurm,
        agent: Path,
        files: ChunkFiles,
        variables: Mapping[str, str],
        best_priority: int = 0,
        *,
        knows_site: bool = True,
    ) -> None:
        self._slurm = slurm
        self._agent = agent
        self._run = agent.parent
        self._files = files
        self._variables = variables
        self._best_priority = best_priority
        self._knows_site = knows_site
        self._nodes: Sequence[SlurmNode] | None = None
        self._shapes: dict[tuple[str, bool], Mapping[str, Any]] = {}
        self._never: dict[tuple[int, str], str] = {}
        self._terms: dict[tuple[str, bool], Terms] = {}
        limits = slurm.limits()
        # Slurm's default (slurm.conf(5), MaxArraySize).
        most = 1001 if isinstance(limits, NoAnswer) else limits.max_array_size
        self.most_units = max(1, most - 1)

    def cluster(self) -> ClusterId | None:
        """Return the cluster's ``ClusterName`` and controller; see `Engine`."""
        return cluster_of(self._slurm.limits())

    def shape(self, task: Task) -> Mapping[str, Any]:
        """Return the needs of a task's units; see `Engine`."""
        # Tasks of one spec differ only in their parameters.
        origin = task.spec, task.is_last
        if origin not in self._shapes:
            self._shapes[origin] = dataclasses.asdict(shape_of(task, self._best_priority))
        return self._shapes[origin]

    def terms(self, task: Task) -> Terms:
        """Return the demands of a task's options; see `Engine`."""
        origin = task.spec, task.is_last
        if origin not in self._terms:
            options = options_of(task)
            self._terms[origin] = Terms(
                per_unit=options.per_job,
                pending_limit_s=options.pending_limit,
                goes_on_after_limit=options.requeue_on_timeout,
            )
        return self._terms[origin]

    def submit(
        self, chunk: ChunkRecord, *, most_at_once: int | None, excluded: Collection[str]
    ) -> Accepted | Full | Refused | Silent:
        """Submit a chunk; see `Engine`."""
        try:
            script = self.script(chunk, most_at_once=most_at_once, excluded=excluded)
        except RequestError as error:
            return Refused(_with_hint(error))
        if isinstance(script, NoAnswer):
            return _silent(script)
        answer = self._slurm.submit(script, self._variables)
        if isinstance(answer, NoAnswer):
            return _silent(answer)
        if isinstance(answer, str):
            if is_full(answer):
                return Full(explain_full(answer))
            return Refused(explain_refusal(answer))
        return Accepted(str(answer.job))

    def script(
        self, chunk: ChunkRecord, *, most_at_once: int | None = None, excluded: Collection[str] = ()
    ) -> Script | NoAnswer:
        """Return the sbatch script of a chunk.

        Raises:
            RequestError: No node has the requested resources, or a value cannot be written.
        """
        shape = dataclasses.replace(_shape(chunk), exclude=tuple(sorted(excluded)))
        if shape.gpus and self._knows_site and self._nodes is None:
            nodes = self._slurm.nodes()
            if isinstance(nodes, NoAnswer):
                return nodes
            self._nodes = nodes
        is_array = chunk.num_units > 1
        agent = shlex.join(["sh", str(self._agent), str(self._files.spec(chunk))])
        per_unit = f" {chunk.per_unit}" if chunk.per_unit > 1 else ""
        request = Request(
            name=chunk.name,
            shape=shape,
            command=f"exec {agent} {UNIT}{per_unit}",
            directory=self._run,
            output=f"chunks/{chunk.number:04d}/" + ("%A_%a.engine" if is_array else "%j.engine"),
            elements=chunk.num_units if is_array else None,
            throttle=most_at_once if is_array else None,
            comment=str(self._run),
        )
        return write_script(request, self._nodes)

    def find(self, chunk: ChunkRecord) -> Accepted | Silent | None:
        """Find a chunk's job by its name; see `Engine`."""
        answer = self._slurm.find(chunk.name, chunk.made_at)
        if isinstance(answer, NoAnswer):
            return _silent(answer)
        return None if answer is None else Accepted(str(answer.job))

    def look(self, chunks: Sequence[ChunkRecord]) -> Mapping[UnitName, Shown] | Silent:
        """Return the units that squeue shows; see `Engine`."""
        numbers = {chunk.name: chunk.number for chunk in chunks}
        queued = self._slurm.queue([*numbers])
        if isinstance(queued, NoAnswer):
            return _silent(queued)
        return {
            UnitName(numbers[unit.name], unit.unit.element or 0): self._shown(unit)
            for unit in queued
            if unit.name in numbers
        }

    def _shown(self, queued: Queued) -> Shown:
        shown = _shown(queued)
        never = self._why_never(queued) if shown.phase == "waiting" else ""
        return dataclasses.replace(shown, reason=f"can never start: {never}") if never else shown

    def _why_never(self, queued: Queued) -> str:
        """Return why a unit can never start, in words; queried once for each job and reason."""
        if not is_amount_limit(queued.reason):
            return ""
        key = queued.unit.job, queued.reason
        if key not in self._never:
            words = self._slurm.why_never(queued.unit.job)
            self._never[key] = f"{words} ({queued.reason})" if words else ""
        return self._never[key]

    def endings(
        self, units: Iterable[tuple[ChunkRecord, int]]
    ) -> Mapping[UnitName, Ending] | Silent:
        """Return the endings of units, from sacct or scontrol; see `Engine`."""
        by_unit = {_unit(chunk, number): (chunk, number) for chunk, number in units if chunk.job}
        if not by_unit:
            return {}
        since = min(chunk.made_at for chunk, _ in by_unit.values())
        answer = self._slurm.ended([*by_unit], since)
        if isinstance(answer, NoAnswer):
            return _silent(answer)
        endings = {}
        for accounted in answer:
            chunk, number = by_unit[accounted.unit]
            ending = self._ending(chunk, accounted)
            if ending is not None:
                endings[UnitName(chunk.number, number)] = ending
        known_units = {accounted.unit for accounted in answer}
        for unit, (chunk, number) in by_unit.items():
            # Without accounting, Slurm soon forgets ended jobs. Their own output is still in the
            # run.
            printed = None if unit in known_units else printed_ending(self._printed(chunk, unit))
            if printed is not None:
                endings[UnitName(chunk.number, number)] = printed
        return endings

    def final_status(self, chunk: ChunkRecord, unit: int) -> Ending | None:
        """Return the ending that slurmstepd has printed for a unit; see `Engine`."""
        return printed_ending(self._printed(chunk, _unit(chunk, unit))) if chunk.job else None

    def cancel(
        self, units: Sequence[tuple[ChunkRecord, int]] = (), chunks: Sequence[ChunkRecord] = ()
    ) -> Silent | None:
        """Cancel units, or all units of some chunks; see `Engine`."""
        known = [_unit(chunk, number) for chunk, number in units if chunk.job]
        silence = self._slurm.cancel(known, names=[chunk.name for chunk in chunks])
        return _silent(silence) if silence is not None else None

    def avoid(self, chunk: ChunkRecord, hosts: Collection[str]) -> Silent | None:
        """Keep a chunk's waiting units off hosts, if other hosts are suitable; see `Engine`."""
        try:
            script = self.script(chunk, excluded=hosts)
        except RequestError:
            return None
        if isinstance(script, NoAnswer):
            return _silent(script)
        # Without this test, units without another suitable host would wait forever.
        refused = self._slurm.test(script)
        if isinstance(refused, NoAnswer):
            return _silent(refused)
        if refused is not None:
            return None
        silence = self._slurm.avoid(int(chunk.job), sorted(hosts))
        return _silent(silence) if silence is not None else None

    def throttle(self, chunk: ChunkRecord, most_at_once: int) -> Silent | None:
        """Limit how many elements of an array run at once; see `Engine`."""
        silence = self._slurm.throttle(int(chunk.job), most_at_once)
        return _silent(silence) if silence is not None else None

    def _ending(self, chunk: ChunkRecord, accounted: Accounted) -> Ending | None:
        has_ended_well = accounted.state == "completed"
        return accounted_ending(
            accounted,
            "" if has_ended_well else self._printed(chunk, accounted.unit),
            run=self._run,
            asked_for_time=_shape(chunk).time_limit_s is not None,
        )

    def _printed(self, chunk: ChunkRecord, unit: Unit) -> str:
        """Return the last lines of a unit's own output, joined into one line."""
        path = self._files.output(chunk) / f"{unit}.engine"
        try:
            lines = masked_end(path, _LAST_BYTES)[0].splitlines()
        except OSError:
            return ""
        return " / ".join(line.strip() for line in lines[-_LAST_LINES:] if line.strip())


def _shape(chunk: ChunkRecord) -> Shape:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in chunk.shape.items()
    }
    return Shape(**values)


def _unit(chunk: ChunkRecord, number: int) -> Unit:
    return Unit(int(chunk.job), number if chunk.num_units > 1 else None)


def _shown(queued: Queued) -> Shown:
    job = str(queued.unit.job)
    match queued.state:
        case "pending" | "requeued":
            # Slurm shows `None` until the scheduler has considered a job.
            is_known = queued.reason not in ("", "None")
            return Shown("waiting", job, explain_reason(queued.reason) if is_known else "")
        case "running" | "completing":
            return Shown("running", job, host=queued.nodes)
        case "suspended":
            return Shown("running", job, "is suspended by Slurm", queued.nodes)
        case "other":
            return Shown("waiting", job, f"waits ({queued.word})", queued.nodes)
        case _:
            return Shown("over", job, host=queued.nodes)


def _silent(silence: NoAnswer) -> Silent:
    return Silent(f"{silence.command}: {silence.words}")


def _with_hint(error: RequestError) -> str:
    return f"{error.message}\n{error.hint}" if error.hint else error.message

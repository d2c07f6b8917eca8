"""PBS as an engine: chunks are job arrays, and units are subjobs."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tarmac.documents import Seconds
from tarmac.executors.queueing import (
    Accepted,
    ChunkFiles,
    ChunkRecord,
    ClusterId,
    Ending,
    Engine,
    Full,
    Refused,
    Shown,
    Silent,
    TooLarge,
    UnitName,
)
from tarmac.jobs import Task
from tarmac_pbs import commands

# Memory of the agent beside its program, and its time beside the program's timeout.
_AGENT_MIB = 64
_AGENT_S = 900

# PBS looks every few seconds whether jobs are over their walltime.
_NEAR_LIMIT_S = 5.0

# The substate of a job that qdel has ended (job.h, JOB_SUBSTATE_TERMINATED).
_DELETED = 91

# Values of Exit_status of a job that can start nowhere (job.h, JOB_EXEC_FAIL1 and others).
_CANNOT_START = {-1, -2, -10, -13, -17, -19, -21, -22, -23}


class PbsOptions(BaseModel):
    """``options: {pbs: ...}`` of a job or a task.

    Attributes:
        queue: Queue of the jobs. Default: the server's.
        project: Project that the jobs belong to. Default: the server's.
        walltime: Time limit of a job. Default: the task's ``timeout`` and 15 minutes.
        setup: Lines of shell before the program: ``module load cuda``. Default: none.
        work: Directory that a task runs in: ``shared``, or one on the node. Default ``shared``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    queue: str = ""
    project: str = ""
    walltime: Seconds | None = None
    setup: tuple[str, ...] = ()
    work: str = "shared"


def needs(task: Task) -> dict[str, Any]:
    """Return what a task's jobs ask PBS for."""
    options = PbsOptions.model_validate(task.options.get("pbs", {}))
    resources, walltime = task.resources, options.walltime
    if walltime is None and task.timeout_s is not None:
        walltime = task.timeout_s + _AGENT_S
    select = f"select=1:ncpus={max(1, math.ceil(resources.cpus))}"
    if resources.memory:
        select += f":mem={math.ceil(resources.memory / 2**20) + _AGENT_MIB}mb"
    if resources.gpus:
        select += f":ngpus={math.ceil(resources.gpus)}"
    words = ["-l", select]
    words += ["-l", f"walltime={math.ceil(walltime)}"] if walltime else []
    words += ["-q", options.queue] if options.queue else []
    words += ["-P", options.project] if options.project else []
    return {"words": words, "setup": [*options.setup]}


class PbsEngine(Engine):
    """PBS as the engine for the chunks of one run.

    Args:
        agent: The agent's file, in the run's directory.
        files: Chunk files of the run.
    """

    title = "PBS"
    # The default of the server's max_array_size.
    most_units = 10_000

    def __init__(self, agent: Path, files: ChunkFiles) -> None:
        self._agent, self._files = agent, files
        self._cluster: ClusterId | None = None

    def cluster(self) -> ClusterId | None:
        """Return the server's name, cached after the first answer."""
        if self._cluster is None:
            answer = commands.show("qstat", "-B", "-f")
            name = "" if isinstance(answer, Silent) else answer.get("pbs_server", "")
            self._cluster = ClusterId(name) if name else None
        return self._cluster

    def shape(self, task: Task) -> Mapping[str, Any]:
        """Return the needs of a task's units."""
        return needs(task)

    def submit(
        self, chunk: ChunkRecord, *, most_at_once: int | None, excluded: Collection[str]
    ) -> Accepted | Full | TooLarge | Refused | Silent:
        """Submit a chunk; PBS cannot exclude hosts by name."""
        del excluded
        words = ["-N", chunk.name, "-S", "/bin/sh", "-j", "oe", *chunk.shape["words"]]
        name = "0.engine"
        # PBS takes no array of one subjob.
        if chunk.num_units > 1:
            words += ["-J", f"0-{chunk.num_units - 1}"]
            words += ["-W", f"max_run_subjobs={most_at_once}"] if most_at_once else []
            name = "^array_index^.engine"
        agent = shlex.join(["sh", str(self._agent), str(self._files.spec(chunk))])
        script = [
            *chunk.shape["setup"],
            'export TARMAC_ENGINE=PBS TARMAC_ENGINE_UNIT="$PBS_JOBID"',
            f'exec {agent} "${{PBS_ARRAY_INDEX:-0}}"',
        ]
        output = str(self._files.output(chunk) / name)
        return commands.submit(*words, "-o", output, script="\n".join([*script, ""]))

    def find(self, chunk: ChunkRecord) -> Accepted | Silent | None:
        """Find a chunk's job by its name."""
        jobs = commands.jobs()
        if isinstance(jobs, Silent):
            return jobs
        names = {job.get("Job_Name"): commands.unit_of(name)[0] for name, job in jobs.items()}
        return Accepted(names[chunk.name]) if chunk.name in names else None

    def look(self, chunks: Sequence[ChunkRecord]) -> Mapping[UnitName, Shown] | Silent:
        """Return the units that qstat shows, ended ones too where the server keeps a history."""
        known = {}
        for chunk in chunks:
            job = self._job(chunk)
            if isinstance(job, Silent):
                return job
            known[job] = chunk
        known.pop("", None)
        jobs = commands.jobs(*known) if known else {}
        if isinstance(jobs, Silent):
            return jobs
        units = {}
        for identifier, values in jobs.items():
            job, unit = commands.unit_of(identifier)
            if job in known and unit >= 0:
                printed = self._files.output(known[job]) / f"{unit}.engine"
                units[UnitName(known[job].number, unit)] = shown(job, values, printed)
        return units

    def endings(
        self, units: Iterable[tuple[ChunkRecord, int]]
    ) -> Mapping[UnitName, Ending] | Silent:
        """Return the endings of units that the server's history has."""
        chunks = {chunk.number: chunk for chunk, _ in units}
        answer = self.look([*chunks.values()])
        if isinstance(answer, Silent):
            return answer
        return {name: unit.ending for name, unit in answer.items() if unit.ending is not None}

    def cancel(
        self, units: Sequence[tuple[ChunkRecord, int]] = (), chunks: Sequence[ChunkRecord] = ()
    ) -> Silent | None:
        """End units, or all units of chunks: SIGTERM, then SIGKILL after ``kill_delay``."""
        words = [chunk.job.replace("[]", f"[{unit}]") for chunk, unit in units]
        for chunk in chunks:
            job = self._job(chunk)
            if isinstance(job, Silent):
                return job
            words += [job] if job else []
        return commands.change("qdel", *words) if words else None

    def throttle(self, chunk: ChunkRecord, most_at_once: int) -> Silent | None:
        """Limit how many subjobs of an array run at once."""
        return commands.change("qalter", "-W", f"max_run_subjobs={most_at_once}", chunk.job)

    def _job(self, chunk: ChunkRecord) -> str | Silent:
        """Return the identifier of a chunk's job; empty where the server has none."""
        answer = Accepted(chunk.job) if chunk.job else self.find(chunk)
        if isinstance(answer, Silent):
            return answer
        return answer.job if answer is not None else ""


def shown(job: str, values: Mapping[str, Any], printed: Path) -> Shown:
    """Return a unit as the executor wants it.

    Args:
        job: Identifier of the unit's chunk.
        values: Attributes of the unit, as ``qstat -x -f -F json`` shows them.
        printed: File with the unit's own output.
    """
    state, comment = values.get("job_state", ""), str(values.get("comment", ""))
    host = str(values.get("exec_host", "")).partition("/")[0]
    if state in ("F", "X"):
        return Shown("over", job, host=host, ending=_ending(values, host, printed))
    if state in ("S", "U"):
        return Shown("running", job, "is suspended by PBS", host)
    if state in ("R", "E"):
        return Shown("running", job, host=host)
    return Shown("waiting", job, "is held" if state == "H" else comment, host)


def _ending(values: Mapping[str, Any], host: str, printed: Path) -> Ending | None:
    status = values.get("Exit_status")
    if values.get("substate") == _DELETED:
        return Ending("cancelled", "deleted with qdel", host)
    if status is None:
        # Without a history, PBS soon forgets how a subjob has ended.
        return None
    if status == 0:
        return Ending(None, "Exit_status 0", host)
    limit, used = (
        values.get(name, {}).get("walltime") for name in ("Resource_List", "resources_used")
    )
    if limit and used and commands.seconds(limit) - commands.seconds(used) < _NEAR_LIMIT_S:
        return Ending("timeout", f"the walltime of its job in PBS, {limit}", host)
    words = f"PBS says Exit_status {status}"
    if status < 0:
        return Ending("start" if status in _CANNOT_START else "node", words, host)
    last = printed.read_text(errors="replace").strip()[-300:] if printed.exists() else ""
    words = f"{words}, and its job printed: {last}" if last else words
    # From 256 on, the job's shell was ended by a signal. Before, its agent would have written why.
    return Ending("signal" if status >= 256 else "start", words, host)

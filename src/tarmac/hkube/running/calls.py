"""The calls of algorithms during their tasks: other algorithms and pipelines.

Source: kube-HPC/hkube at 261d3d06, core/worker/lib/code-api and
core/api-server/lib/service/internal.js.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.errors import unknown_name
from tarmac.formats import merged, read_pipeline
from tarmac.hkube.hosting import Ending, Work
from tarmac.hkube.running.expansion import expand
from tarmac.hkube.running.flow import Flow
from tarmac.hkube.running.plan import PipelinePlan, refuse_unknown
from tarmac.hkube.running.tasks import Tasks
from tarmac.hkube.values import digest_of


class PipelineCalls:
    """The host's `Calls`, which run other algorithms and pipelines.

    Args:
        plan: Plan of the run, with its algorithms and stored pipelines.
        tasks: Tasks that all pipelines of the run share.
    """

    def __init__(self, plan: PipelinePlan, tasks: Tasks) -> None:
        self._plan = plan
        self._tasks = tasks

    async def run_algorithm(self, caller: Work, algorithm: str, inputs: Sequence[Any]) -> Ending:
        """Run another algorithm without retries, as in HKube; see `Calls`."""
        name = self._tasks.name_of_call(caller, algorithm)
        index, task_id = self._tasks.index_and_id(name)
        digest = digest_of(inputs)
        work = Work(
            index=index,
            name=name,
            task_id=task_id,
            algorithm=algorithm,
            input=inputs,
            job_id=caller.job_id,
            root_job_id=caller.root_job_id,
            pipeline=caller.pipeline,
            node=f"{caller.node}:{algorithm}",
            parents=(caller.node,),
            retry="Never",
            limit=1,
            priority=caller.priority,
            caller=caller,
        )
        earlier = self._tasks.history.take_earlier(name)
        if earlier is not None and earlier.place is not None and earlier.digest == digest != "":
            self._tasks.repeated(name, succeeded=True)
            return Ending(work=work, value=self._tasks.history.value(earlier.place))
        if algorithm not in self._plan.algorithms:
            message = f"Algorithm named '{algorithm}' does not exist"
            return self._tasks.end(Ending(work=work, why="refused", message=message), digest)
        return await self._tasks.submit(work, digest)

    async def run_pipeline(self, caller: Work, body: Mapping[str, Any]) -> Any:
        """Run a raw pipeline with nodes, or a stored pipeline by its name; see `Calls`."""
        wanted = dict(body)
        if "nodes" not in wanted:
            stored = str(wanted.get("name"))
            if stored not in self._plan.bodies:
                raise unknown_name("pipeline", stored, dict.fromkeys(self._plan.bodies, ""))
            wanted = merged(self._plan.bodies[stored], wanted)
        pipeline = expand(read_pipeline(wanted), self._plan.stored)
        refuse_unknown(pipeline, self._plan.algorithms, self._plan.stored)
        name = self._tasks.name_of_call(caller, pipeline.name)
        flow = Flow(
            pipeline,
            self._plan.stored,
            self._tasks,
            job_id=self._tasks.index_and_id(name)[1],
            root_job_id=caller.root_job_id or caller.job_id,
            prefix=f"{name}/",
            caller=caller,
        )
        return await flow.run()

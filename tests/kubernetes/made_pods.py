"""The pods that Tarmac asks a cluster for, as templates that Kubernetes' own schema admits."""

from __future__ import annotations

import dataclasses

import kubernetes_validate

from tarmac.executors.kubernetes import runners
from tarmac.executors.kubernetes.demand import demand_of
from tarmac.executors.kubernetes.manifests import Unit, job_manifest
from tarmac.executors.runners import RunnerJob
from tarmac.jobs import parse_job, plan_tasks


def task_template(base, job="{name: x, command: 'true'}", *, nodes=1, excluded=(), **options):
    """Return the template of a task's pods.

    Args:
        base: Directory of the job file.
        job: Job file of one task.
        nodes: Number of nodes that do it together.
        excluded: Names of nodes to avoid.
        options: What ``options.kubernetes`` has beside an image.
    """
    (task,) = plan_tasks(parse_job(job), base)
    demand = demand_of(dataclasses.replace(task, options={"kubernetes": {"image": "i", **options}}))
    demand = dataclasses.replace(demand, gpu_resource="nvidia.com/gpu", nodes=nodes)
    unit = Unit("tarmac-01234567-0000", "01234567", "nonce", 1, ("sh",), nodes)
    return _checked(job_manifest(unit, demand, excluded=excluded))


def runner_template(run, **options):
    """Return the template of a runner's pod, whose volume is mounted where the run is."""
    options = {"image": "i", "volume": {"claim": "runs", "path": str(run)}, **options}
    job = RunnerJob(
        run=run,
        number=1,
        num_tasks=1,
        command=("python",),
        variables={},
        options=options,
        warned=run / "warned",
    )
    return _checked(runners._manifest(job, runners.KubernetesOptions.model_validate(options)))


def _checked(manifest):
    kubernetes_validate.validate(manifest, "1.37", strict=True)
    return manifest["spec"]["template"]

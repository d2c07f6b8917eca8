"""Keys of other systems' job files, with their equivalents in a Tarmac job file.

From the documentation of Docker Compose, GitHub Actions, GitLab CI, SkyPilot, dstack, Slurm,
Kubernetes and Ray, as of 2026.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from tarmac.documents import Problem
from tarmac.tasks.model import Job, TaskSpec

# Equivalents for jobs and tasks; each is a valid part of a job file.
_OWN_KEYS = {
    "resources: {gpus: 1}": "gpu gpus num_gpus accelerators device_requests",
    "resources: {gpus: 1, gpu_memory: 40GiB}": "gpu_memory",
    "resources: {cpus: 2}": "cpu cpus num_cpus cpus_per_task cpus-per-task ncpus",
    "resources: {memory: 16GiB}": "mem memory mem_limit mem_reservation ram",
    "resources: {shm: 8GiB}": "shm shm_size",
    "resources: {nodes: 2}": "nodes num_nodes nnodes replicas completions",
    "environment: {image: NAME}": "image docker container containers image_id",
    "environment: {image: NAME, mounts: [{source: /data, target: /data}]}": "mounts volumes",
    "environment: {requirements: [numpy]}": "requirements pip conda packages runtime_env python",
    "env: {NAME: value}": "envs variables env_vars env-file env_file",
    "needs: [NAME]": "after depends_on dependencies dependsOn dependency requires upstream",
    "tasks: [{name: NAME, command: echo}]": "jobs services stages steps stage spec",
    "command: python train.py": "args before_script cmd commands entrypoint entryPoint exec "
    "program run script setup",
    "inputs: [{from: data.csv}]": "file_mounts files workdir working_dir working_directory",
    "outputs: [{path: out/*, to: results}]": "artifacts results",
    "retries: 2": "attempts backoff_limit backoffLimit max_restarts max_retries restart "
    "restart_policy retry requeue",
    "timeout: 2h": "activeDeadlineSeconds max_duration time time_limit timeout-minutes "
    "timeout_minutes timeout_s walltime",
    "sweep: {grid: {lr: [0.1, 0.01]}}": "array grid matrix parameters strategy",
    "concurrency: 2": "max_parallel max-parallel parallelism",
    "on_failure: continue": "allow_failure continue-on-error continue_on_error",
    "options: {slurm: {partition: gpu, account: NAME}}": "account partition qos sbatch slurm",
    "options: {kubernetes: {namespace: NAME}}": "kubernetes namespace",
}
_OF_TASKS = {key: own for own, keys in _OWN_KEYS.items() for key in keys.split()}
_OF_RESOURCES = {
    **dict.fromkeys(("accelerators", "num_gpus", "nvidia.com/gpu"), "gpus: 1"),
    **dict.fromkeys(("num_cpus", "cpus_per_task", "vcpus"), "cpus: 2"),
    **dict.fromkeys(("mem", "mem_limit", "ram"), "memory: 16GiB"),
    **dict.fromkeys(("num_nodes", "replicas"), "nodes: 2"),
    "shm_size": "shm: 8GiB",
    **dict.fromkeys(("limits", "requests", "deploy"), "gpus: 1"),
}
_OF_ENVIRONMENTS = {
    **dict.fromkeys(("packages", "pip", "dependencies"), "requirements: [numpy]"),
    "volumes": "mounts: [{source: /data, target: /data}]",
}
_TASK = re.compile(r"(?:(?:tasks\[\d+\]|after_all)\.)?([^.\[]+)")
# Key names may contain dots, such as Kubernetes' resources.
_INNER = re.compile(r"(?:(?:tasks\[\d+\]|after_all)\.)?(resources|environment)\.(.+)")


def with_own_keys(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems of a job file; add Tarmac's equivalent to another system's key."""
    for problem in problems:
        own = _own_of(problem.path) if problem.message == "unknown key" else None
        if own is None:
            yield problem
        else:
            yield dataclasses.replace(problem, hint=f"  write here: {own}")


def _own_of(path: str) -> str | None:
    if inner := _INNER.fullmatch(path):
        table = _OF_RESOURCES if inner[1] == "resources" else _OF_ENVIRONMENTS
        return table.get(inner[2])
    place = _TASK.fullmatch(path)
    if place is None:
        return None
    key = place[1]
    own = _OF_TASKS.get(key, key)
    first = own.partition(":")[0]
    is_in_task = place[0] != key
    here, elsewhere = (TaskSpec, Job) if is_in_task else (Job, TaskSpec)
    if first in here.model_fields:
        return own
    if first not in elsewhere.model_fields:
        return None
    return f"{own}, {'at the top of the file' if is_in_task else 'in one of its tasks'}"

"""Runners as Jobs of one small pod each, whose service account may make further Jobs.

The pod mounts the claim with the run's directory, at the same path as on this machine. The Job
has no time limit and needs no successor. After a disruption the cluster starts a new pod, which
resumes the run.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, TarmacError
from tarmac.executors.kubernetes.engine import cluster_of
from tarmac.executors.kubernetes.manifests import (
    BEGUN_AGAIN,
    CONTAINER,
    GRACE_S,
    JOB_LABEL,
    RUN,
    SWEPT_AFTER_S,
    Manifest,
    secret_manifest,
)
from tarmac.executors.kubernetes.options import KubernetesOptions
from tarmac.executors.kubernetes.overlay import overlaid
from tarmac.executors.kubernetes.place import connect_to
from tarmac.executors.queueing import (
    ChunkFiles,
    job_label,
    note_runner_cluster,
    refuse_other_cluster,
    run_code,
    runner_elsewhere,
)
from tarmac.executors.runners import RunnerJob, RunnerState, runner_memory
from tarmac.files import parse_json, read_errors, write_json
from tarmac.kubernetes import (
    NoAnswer,
    Refused,
    container_context,
    default_user,
    explain_pod,
    explain_refusal,
    home_variables,
    in_form,
    pod_context,
)

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster, Object

# Timeout of status queries, so that a list of runs stays fast.
_ANSWERS_WITHIN_S = 10.0

# Pauses before each repeat of a request without an answer; a repeat finds an existing object.
_AGAIN_AFTER_S = (1.0, 5.0, 15.0)

# Label of runners; the label of a run marks the objects that its runner sweeps.
_RUNNER = "tarmac.dev/runner"

# A runner mostly waits between two polls of its tasks.
_CPUS = "250m"

# File in the run's directory that names the cluster of its runners.
_PLACE = "runners/cluster.json"
_PLACED_BY = ("kubeconfig", "context", "namespace")

_HERE = "Start it on this machine: --runner here"


class KubernetesRunners:
    """Runs runners as Kubernetes Jobs."""

    def submit(self, job: RunnerJob) -> str:
        """Submit a runner's Job exactly once; see `RunnerEngine`."""
        options = KubernetesOptions.model_validate(job.options)
        _refuse_unknown(job, options)
        write_json(job.run / _PLACE, options.model_dump(include={*_PLACED_BY}))
        manifest = _manifest(job, options)
        left = ChunkFiles(job.run).left()
        with _connect(job.run) as cluster:
            here = cluster_of(cluster)
            refuse_other_cluster(job.run, "Kubernetes", left, here, has=lambda _: False)
            note_runner_cluster(job.run, here)
            made = _insist(cluster, manifest)
            if job.secrets:
                values = {name: os.fsencode(value) for name, value in job.secrets.items()}
                try:
                    _insist(cluster, secret_manifest(made, values))
                except TarmacError:
                    cluster.delete("Job", made["metadata"]["name"])
                    raise
            return str(made["metadata"]["name"])

    def secrets(self, run: Path) -> Mapping[str, str]:  # noqa: ARG002 - its pod has them already
        """Return nothing: a runner's pod has its secrets as variables; see `RunnerEngine`."""
        return {}

    def look(self, run: Path, number: int, place: str, since: datetime) -> RunnerState:
        """Return the present state of a runner's Job; see `RunnerEngine`."""
        del number, since
        try:
            with _connect(run, patience_s=_ANSWERS_WITHIN_S) as cluster:
                state = _state(cluster, place)
                if state.kind != "ended":
                    return state
                return runner_elsewhere(run, place, "Kubernetes", cluster_of(cluster)) or state
        except TarmacError as error:
            return RunnerState("unknown", f"job cannot be queried: {error.message}")

    def cancel(self, run: Path, numbers: Sequence[int]) -> None:
        """Delete runners' Jobs that have not begun; see `RunnerEngine`."""
        try:
            names = [name for number in numbers for name in _names(run, number)]
            with _connect(run, patience_s=_ANSWERS_WITHIN_S) as cluster:
                for name in names:
                    # A runner that has begun reads the stop request from the run's directory.
                    if _state(cluster, name).kind == "waits":
                        cluster.delete("Job", name)
        except TarmacError:
            # A Job that cannot be reached stays there, and finds no work once it begins.
            return


def _connect(run: Path, patience_s: float | None = None) -> Cluster:
    with read_errors(run / _PLACE):
        placed = parse_json((run / _PLACE).read_bytes())
    return connect_to(*(placed[name] for name in _PLACED_BY), patience_s=patience_s)


def _refuse_unknown(job: RunnerJob, options: KubernetesOptions) -> None:
    if options.volume is None or not job.run.is_relative_to(options.volume.path):
        where = "there is none"
        if options.volume is not None:
            where = f"{job.run} is not below {options.volume.path}"
        raise RequestError(
            f"a runner that is a pod needs a volume with the run's directory, and {where}",
            hint="--set 'options.kubernetes.volume={claim: NAME, path: DIR}' and --output below "
            f"DIR\n{_HERE}",
        )
    if not (options.runner.image or options.image):
        raise RequestError(
            "a runner that is a pod needs an image that has Tarmac",
            hint=f"--set options.kubernetes.runner.image=IMAGE\n{_HERE}",
        )


def _insist(cluster: Cluster, manifest: Manifest) -> Object:
    """Create an object exactly once; return the object as the cluster has it.

    Raises:
        TarmacError: The cluster refuses the object, or does not answer.
    """
    answer = cluster.create(manifest)
    for pause_s in _AGAIN_AFTER_S:
        if not isinstance(answer, NoAnswer):
            break
        time.sleep(pause_s)
        answer = cluster.create(manifest)
    if isinstance(answer, Refused) and answer.is_conflict:
        # No other runner of the run has this name, so an earlier try without an answer made it.
        existing = cluster.get(manifest["kind"], manifest["metadata"]["name"])
        answer = answer if existing is None else existing
    if isinstance(answer, NoAnswer):
        raise TarmacError(
            f"Kubernetes does not say whether it has the runner: {answer.words}", hint=_HERE
        )
    if isinstance(answer, Refused):
        refusal = explain_refusal(answer, cluster.namespace)
        raise TarmacError(
            f"Kubernetes refuses the runner: {refusal.words}",
            hint=f"{refusal.hint}\n{_HERE}".strip(),
        )
    return answer


@in_form
def _state(  # noqa: PLR0911 - a row for each thing that may be so
    cluster: Cluster, name: str
) -> RunnerState:
    job = cluster.get("Job", name)
    if isinstance(job, (NoAnswer, Refused)):
        words = job.words if isinstance(job, NoAnswer) else job.message
        # No Job name: the same message stands for runners of other runs, without another query.
        return RunnerState("unknown", f"job cannot be queried: {words}")
    if job is None:
        return RunnerState("ended", f"job {name} no longer exists")
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["status"] == "True" and condition["type"] == "Complete":
            return RunnerState("ended", f"job {name} has ended")
    pods = cluster.list("Pod", labels=f"batch.kubernetes.io/job-name={name}")
    if isinstance(pods, (NoAnswer, Refused)):
        return RunnerState("waits", f"job {name} exists, but its pod cannot be queried")
    states = [explain_pod(pod, container=CONTAINER) for pod in pods.items]
    for state in states:
        if state.phase == "running":
            return RunnerState("runs", f"job {name} runs on {state.host}")
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["status"] == "True" and condition["type"] == "Failed":
            why = next((state.words for state in states if state.words), condition.get("message"))
            return RunnerState("ended", f"job {name} has failed: {why}")
    why = next((f": {state.words}" for state in states if state.matter), " for a node")
    return RunnerState("waits", f"job {name} waits{why}")


def _names(run: Path, number: int) -> tuple[str, str]:
    """Return the name of a runner's Job, and its former name."""
    suffix = f"{run_code(run)}-runner-{number}"
    return f"{job_label(run)}-{suffix}", f"tarmac-{suffix}"


def _command(job: RunnerJob, python: str) -> Sequence[str]:
    # The first word is this machine's Python; the image has its own.
    words = shlex.join([python, *job.command[1:]])
    run = shlex.quote(str(job.run))
    # This error goes to the pod's own log, as runner.log is out of reach.
    seen = f"cd {run} || {{ echo 'the pod does not see the directory' {run} >&2; exit 1; }}"
    return ["sh", "-c", f"{seen}; exec {words} >> runner.log 2>&1"]


def _manifest(job: RunnerJob, options: KubernetesOptions) -> Manifest:
    """Return the Job of a runner, whose pod the cluster replaces after a disruption."""
    assert options.volume is not None
    name, run = _names(job.run, job.number)[0], run_code(job.run)
    labels = {RUN: run, JOB_LABEL: job_label(job.run)}
    user = default_user(has_volume=True) if options.pod_security == "restricted" else ""
    restricted = bool(user)
    memory = str(options.runner.memory or runner_memory(job.num_tasks))
    variables = [{"name": key, "value": value} for key, value in sorted(job.variables.items())]
    secrets = [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}
        for key in sorted(job.secrets)
    ]
    container: Manifest = {
        "name": CONTAINER,
        "image": options.runner.image or options.image,
        "command": [*_command(job, options.python)],
        "env": [*(home_variables() if user else ()), *variables, *secrets],
        "resources": {"requests": {"cpu": _CPUS, "memory": memory}, "limits": {"memory": memory}},
        "securityContext": container_context(restricted=restricted),
        "volumeMounts": [{"name": "run", "mountPath": options.volume.path}],
    }
    claim = {"claimName": options.volume.claim}
    pod: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [{"name": "run", "persistentVolumeClaim": claim}],
    }
    if security := pod_context(user, restricted=restricted):
        pod["securityContext"] = security
    if options.runner.service_account:
        pod["serviceAccountName"] = options.runner.service_account
    if options.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in options.image_pull_secrets]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels | {_RUNNER: run}},
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": BEGUN_AGAIN,
            "ttlSecondsAfterFinished": SWEPT_AFTER_S,
            "template": overlaid(
                {
                    "metadata": {"labels": {_RUNNER: run, JOB_LABEL: labels[JOB_LABEL]}},
                    "spec": pod,
                },
                options.runner.pod,
            ),
        },
    }

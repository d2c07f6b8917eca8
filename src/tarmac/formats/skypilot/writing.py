"""Jobs as SkyPilot tasks: SkyPilot opens a machine, which checks its GPUs and runs the job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tarmac.distribution import DISTRIBUTION, installed_version
from tarmac.documents import dump_document
from tarmac.environments import ProjectSpec, pixi_spec
from tarmac.errors import RequestError
from tarmac.files import Location
from tarmac.formats.format import Unwritable
from tarmac.formats.original import original_of
from tarmac.formats.skypilot.embedded import Embedded, embed
from tarmac.formats.skypilot.machines import place_in_job, resources_of
from tarmac.jobs import Conda, Container, Job, Project, Task, Venv, plan_tasks

# Characters to replace, so that a name is valid for a task and a cluster: `_VALID_NAME_REGEX` in
# SkyPilot's task.py, and `CLUSTER_NAME_VALID_REGEX` in skylet/constants.py (0.14.1).
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")

# The job file, in the directory that `workdir` copies to, and the directory of its runs.
_FILE = "tarmac-job.yaml"
_RUNS = "tarmac-runs"
_END = "TARMAC_JOB"

# Azure blobs need the keys of an account. Machines of Amazon and Google have their own role.
_AZURE_KEYS = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY")
_OTHER_KEYS = {
    "s3": "sky launch --secret AWS_ACCESS_KEY_ID --secret AWS_SECRET_ACCESS_KEY",
    "gs": "sky launch --secret GOOGLE_SERVICE_ACCOUNT_KEY",
}

# Rendezvous port for several machines: torchrun's default.
_PORT = 29500


def write_skypilot(job: Job, directory: Path) -> tuple[str, list[str]]:
    """Return a job as the text of a SkyPilot task, and notes.

    The SkyPilot task opens one machine, or as many as ``nodes`` of the job's only task. It
    installs Tarmac there, checks the GPUs, and starts ``tarmac run``. Secrets are named and left
    empty: the user gives them at launch.

    Args:
        job: Job without a pipeline. A job with a pipeline is refused.
        directory: Directory that the job's relative paths start from.

    Raises:
        RequestError: SkyPilot cannot run the job; the message names the reason and its place.
    """
    if job.pipeline is not None:
        raise Unwritable(
            f"{job.name} is a pipeline, but a SkyPilot task needs a job with tasks known in "
            "advance",
            hint="On a machine that you have opened: tarmac run FILE",
            path=("pipeline",),
        )
    if job.refusals:
        raise RequestError(
            f"{job.name} cannot be run: {job.refusals[0]}", hint="\n".join(job.refusals[1:]) or None
        )
    tasks = [*plan_tasks(job, directory)]
    for task in tasks:
        _refuse_engine(job, task)
    nodes = _nodes(job, tasks)
    resources, notes = resources_of(job, tasks)
    stores = _stores(tasks)
    embedded = embed(job)
    secrets = embedded.secrets | {
        key: f"of {stores['az']}" for key in _AZURE_KEYS if "az" in stores
    }
    name = _NOT_IN_NAMES.sub("-", job.name.lower()).strip("-") or "job"
    name = name if name[0].isalpha() else f"job-{name}"
    value: dict[str, Any] = {"name": name}
    if nodes > 1:
        value["num_nodes"] = nodes
    value["resources"] = resources
    absolute, is_relative = _places(job, tasks)
    if is_relative:
        value["workdir"] = "."
        notes.append(f"{job.name}: launch it in {directory}, whose files are brought along")
    if absolute:
        value["file_mounts"] = {place: place for place in absolute}
    if secrets:
        value["secrets"] = dict.fromkeys(secrets)
        notes += [
            f"{job.name}: give the secret {variable} at launch ({reference}): "
            f"sky launch --secret {variable}"
            for variable, reference in secrets.items()
        ]
    notes += [
        f"{job.name}: {stores[scheme]} is asked for with the machine's own role; where that is not "
        f"enough: {command}"
        for scheme, command in _OTHER_KEYS.items()
        if scheme in stores
    ]
    value["setup"] = _setup(tasks, directory, has_stores=bool(stores))
    value["run"] = _run(tasks, nodes, embedded)
    notes += _notes(job, tasks, nodes)
    return _header(name, job, tasks, secrets) + dump_document(value, has_blocks=True), notes


def _refuse_engine(job: Job, task: Task) -> None:
    engine = task.environment.engine if isinstance(task.environment, Container) else None
    if engine in ("apptainer", "pyxis"):
        raise Unwritable(
            f"{job.name}: task {task.name!r}: environment.engine is {engine}, which the machines "
            "that SkyPilot opens do not have",
            hint="Leave it out: Docker is there",
            path=place_in_job(job, task, "environment", "engine"),
        )


def _nodes(job: Job, tasks: Sequence[Task]) -> int:
    many = [task for task in tasks if task.resources.nodes > 1]
    if not many:
        return 1
    if len(tasks) > 1:
        raise Unwritable(
            f"{job.name}: task {many[0].name!r} runs on {many[0].resources.nodes} nodes beside "
            "others, and SkyPilot starts one program on all machines of a task",
            hint="Give it a job file of its own",
            path=place_in_job(job, many[0], "resources", "nodes"),
        )
    if isinstance(many[0].environment, Container):
        raise Unwritable(
            f"{job.name}: task {many[0].name!r} runs on several nodes in a container, which does "
            "not know the other machines",
            hint="Use requirements instead of the image, or run it on a cluster: "
            "tarmac run FILE --on slurm",
            path=place_in_job(job, many[0], "resources", "nodes"),
        )
    return many[0].resources.nodes


def _places(job: Job, tasks: Sequence[Task]) -> tuple[list[str], bool]:
    """Return the absolute local paths that the job reads, and whether it reads relative paths."""
    paths: dict[str, None] = {}
    is_relative = any(spec.sweep is not None and spec.sweep.files for spec in (job, *job.tasks))
    for task in tasks:
        for task_input in task.inputs:
            if task_input.source.startswith("run:") or urlsplit(task_input.source).scheme:
                continue
            if task_input.source.startswith(("/", "~")):
                paths[task_input.source.rstrip("/") or "/"] = None
            else:
                is_relative = True
        if isinstance(task.environment, Venv):
            is_relative |= any("-r" in line for line in task.environment.requirements)
        is_relative |= isinstance(task.environment, (Conda, Project))
        # A workload of the user's own is a file.
        is_relative |= any(".py" in word for word in task.train_words[:1])
    return [*paths], is_relative


def _stores(tasks: Sequence[Task]) -> dict[str, str]:
    """Return the schemes of the object stores that tasks use, each with the first location."""
    stores: dict[str, str] = {}
    for task in tasks:
        sources = [task_input.source for task_input in task.inputs]
        for text in [*sources, *(output.to for output in task.outputs)]:
            # The scheme "run:" is for files inside a run, not for a store.
            location = None if text.startswith("run:") else Location.parse(text)
            if location is not None and location.is_object:
                stores.setdefault(location.scheme, f"{location.scheme}://{location.host}")
    return stores


def _is_of_conda(task: Task, directory: Path) -> bool:
    environment = task.environment
    if isinstance(environment, Project):
        return pixi_spec(ProjectSpec(environment.path), directory) is not None
    return isinstance(environment, Conda)


def _setup(tasks: Sequence[Task], directory: Path, *, has_stores: bool) -> str:
    wants = {
        "train": any(task.trains for task in tasks),
        "objects": has_stores,
        "conda": any(_is_of_conda(task, directory) for task in tasks),
    }
    extras = ",".join(extra for extra, is_wanted in wants.items() if is_wanted)
    wanted = f"{DISTRIBUTION}{f'[{extras}]' if extras else ''}=={installed_version()}"
    return (
        "command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh\n"
        'export PATH="$HOME/.local/bin:$PATH"\n'
        f"uv tool install --python 3.12 {shlex.quote(wanted)}\n"
    )


def _run(tasks: Sequence[Task], nodes: int, embedded: Embedded) -> str:
    text = dump_document(embedded.value)
    end = _END
    while end in text:
        end += "_"
    gpus = max((task.resources.gpus for task in tasks), default=0)
    check = "tarmac check --quick"
    if gpus:
        check += f" --require {shlex.quote(f'gpus>={max(1, int(gpus))}')}"
        if any(task.trains for task in tasks):
            check += " --require torch"
    lines = ["set -e", 'export PATH="$HOME/.local/bin:$PATH"']
    if nodes > 1:
        lines += [
            "# What Tarmac's agents tell a program that is started on several machines.",
            'export TARMAC_NODES="$SKYPILOT_NUM_NODES" TARMAC_NODE_RANK="$SKYPILOT_NODE_RANK"',
            'MASTER_ADDR=$(printf %s "$SKYPILOT_NODE_IPS" | head -n 1)',
            f"export MASTER_ADDR MASTER_PORT=${{MASTER_PORT:-{_PORT}}}",
        ]
    lines += [
        "# A machine that does not compute is said before it is paid for.",
        check,
        f"cat > {_FILE} <<'{end}'",
        f"{text}{end}",
        f"tarmac run {_FILE} --output ~/{_RUNS}",
    ]
    return "\n".join(lines) + "\n"


def _notes(job: Job, tasks: Sequence[Task], nodes: int) -> list[str]:
    notes = []
    mounted = {
        mount.source
        for task in tasks
        if isinstance(task.environment, Container)
        for mount in task.environment.mounts
    }
    notes += [
        f"{job.name}: {source} is mounted from the machine that is opened, where it is empty"
        for source in sorted(mounted)
    ]
    if nodes > 1 and any(task.outputs for task in tasks):
        notes.append(f"{job.name}: outputs are kept by each of the {nodes} machines")
    if original_of(job, "shipyard") is not None:
        notes.append(f"{job.name}: of its pool, vm_size and vm_count are used, and nothing else")
    return notes


def _header(name: str, job: Job, tasks: Sequence[Task], secrets: Iterable[str]) -> str:
    options = "".join(f" --secret {variable}" for variable in secrets)
    here = {
        output.to.rstrip("/")
        for task in tasks
        for output in task.outputs
        if not output.to.startswith("run:") and not urlsplit(output.to).scheme
    }
    lines = [
        f"The job {job.name!a} as a SkyPilot task, written by tarmac convert. This file is FILE:",
        f"  open, check, run:  sky launch -c {name}{options} FILE",
        f"  watch:             sky logs {name}; ssh -t {name} .local/bin/tarmac top",
        f"  bring back:        rsync -a {name}:{_RUNS}/ runs/",
        *(_brought(name, place) for place in sorted(here)),
        f"  stop paying:       sky down {name}",
    ]
    return "".join(f"# {line}\n" for line in lines)


def _brought(name: str, place: str) -> str:
    # A relative path starts from the job file, which is in SkyPilot's working directory.
    there = place if place.startswith(("/", "~")) else f"sky_workdir/{place}"
    paths = shlex.quote(f"{name}:{there}/"), shlex.quote(f"{place}/")
    return ascii(f"                     rsync -a {paths[0]} {paths[1]}")[1:-1]

"""A task's container on a node of a cluster: the command lines of Apptainer and of Pyxis.

Docker and Podman run containers on nodes as they do on any machine, see `tarmac.jobs.containers`.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.files import expanded
from tarmac.jobs.containers import WORK, mount_line

if TYPE_CHECKING:
    from tarmac.jobs.containers import ContainerRun
    from tarmac.jobs.model import Container

# A container of Pyxis is a step of the job, which has the container's name.
_FIND_STEP = """\
name=$1
step() {
  squeue -h -s -j "$SLURM_JOB_ID" -o '%i %j' |
    while read -r id its; do if [ "$its" = "$name" ]; then echo "$id"; fi; done
}
"""

# srun answers SIGTERM by SIGKILL to all that it has started, so it is kept from it, in a session of
# its own; the program gets it from Slurm.
_IN_STEP = (
    _FIND_STEP
    + """\
shift
setsid "$@" &
client=$!
trap 'scancel --signal=TERM "$(step)"' TERM
while :; do
  wait "$client"
  code=$?
  kill -0 "$client" 2>/dev/null || exit "$code"
done
"""
)

# What Pyxis reads between mounts and within one.
_PYXIS_MARKS = frozenset(",:\n")


def refuse_unknown_settings(container: Container, engine: str) -> None:
    """Raise a RequestError where a container asks for what an engine does not have.

    Args:
        container: What a task asks for.
        engine: ``apptainer`` or ``pyxis``; the others have everything.
    """
    if engine not in ("apptainer", "pyxis"):
        return
    users = (None, "root", "0") if engine == "pyxis" else (None,)
    networks = (None, "host") if engine == "pyxis" else (None, "host", "none")
    unknown = [
        *(["user"] if container.user not in users else []),
        *(["network"] if container.network not in networks else []),
        *(["ulimits"] if container.ulimits else []),
    ]
    if unknown:
        raise RequestError(
            f"container: {engine} does not know {', '.join(unknown)} as it is asked for",
            hint="Leave it out, or name another engine: engine: podman",
        )


def apptainer_command(run: ContainerRun, *, program: str, image: str) -> tuple[str, ...]:
    """Return the command line that runs a container by Apptainer or Singularity.

    It sees of the machine what Docker would show it: its directory, its mounts and its GPUs.

    Args:
        run: Container to run, with its command, mounts and GPUs.
        program: Path or name of the program, ``apptainer`` or ``singularity``.
        image: A file of it, or its name as Apptainer takes names.

    Raises:
        RequestError: The container asks for what Apptainer does not have.
    """
    container = run.container
    refuse_unknown_settings(container, "apptainer")
    options = ["--contain", "--cleanenv", "--pid", "--writable-tmpfs"]
    if container.ipc is None:
        options.append("--ipc")
    if container.network == "none":
        options += ["--net", "--network", "none"]
    if container.workdir != "":
        options += ["--pwd", container.workdir or WORK]
    for mount in run.mounts():
        options += ["--mount", mount_line(*mount)]
    if run.grant.gpus:
        options.append("--nv")
    prefix = "APPTAINERENV_" if Path(program).name == "apptainer" else "SINGULARITYENV_"
    # A value on its command line would be in the list of processes, and be cut at its commas.
    exports = [f'[ -z "${{{name}+x}}" ] || export {prefix}{name}="${name}"' for name in run.names]
    exports += [f"export {prefix}{name}={shlex.quote(v)}" for name, v in run.variables.items()]
    # Else it evaluates values as a shell would.
    exports.append("export APPTAINER_NO_EVAL=1")
    script = "; ".join((*exports, 'exec "$@"'))
    verb = "run" if container.entrypoint is None else "exec"
    command = (*(container.entrypoint or ()), *run.command)
    return ("/bin/sh", "-c", script, "sh", program, verb, *options, image, *command)


def pyxis_command(run: ContainerRun, *, program: str, image: str, node: str) -> tuple[str, ...]:
    """Return the command line that runs a container by Pyxis, in a step of the job's own.

    Args:
        run: Container to run, with its command, mounts and variables.
        program: srun's, which Pyxis is plugged into.
        image: A file of it, or its name as Pyxis takes names.
        node: Slurm's name for this one.

    Raises:
        RequestError: The container asks for what Pyxis does not have.
    """
    container = run.container
    refuse_unknown_settings(container, "pyxis")
    command = (*(container.entrypoint or ()), *run.command)
    if not command:
        raise RequestError(
            "container: pyxis needs a command, for it runs none of the image's own",
            hint="Give the task a command, or name another engine: engine: apptainer",
        )
    options = ["--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--input=none"]
    options += [f"--job-name={run.name}", f"--container-image={image}"]
    options += [f"--container-mounts={_pyxis_mounts(run)}", "--no-container-mount-home"]
    options.append("--container-writable")
    if container.workdir != "":
        options.append(f"--container-workdir={container.workdir or WORK}")
    if container.user is not None:
        options.append("--container-remap-root")
    own = container.entrypoint is None
    options.append("--container-entrypoint" if own else "--no-container-entrypoint")
    names = [*run.names, *run.variables]
    if names:
        options.append(f"--container-env={','.join(names)}")
    assignments = [f"{name}={value}" for name, value in run.variables.items()]
    started = (*(("env", *assignments) if assignments else ()), program, *options, *command)
    return ("/bin/sh", "-c", _IN_STEP, "sh", run.name, *started)


def pyxis_kill_command(name: str) -> tuple[str, ...]:
    """Return what ends a container of Pyxis at once.

    Args:
        name: Name of the container, which is the job name of its Slurm step.
    """
    return ("/bin/sh", "-c", _FIND_STEP + 'scancel --signal=KILL "$(step)"', "sh", name)


def _pyxis_mounts(run: ContainerRun) -> str:
    mounts: list[str] = []
    for source, target, read_only in run.mounts():
        if _PYXIS_MARKS & {*str(source), *target}:
            raise RequestError(
                f"container: pyxis cannot mount {str(source)!r}: a comma, a colon or a line's end "
                "in its path means something else to it",
                hint="Rename it, or name another engine: engine: apptainer",
            )
        mounts.append(f"{source}:{target}{':ro' if read_only else ''}")
    return ",".join(mounts)


def image_name(image: str, engine: str, base: Path) -> str:
    """Return an image's name as an engine of clusters takes it.

    A file of an image, ``./torch.sif``, is taken from beside the job file, and a name with a scheme
    of its own, ``library://``, as it stands.

    Args:
        image: As Docker takes it: ``nvcr.io/nvidia/pytorch:26.01-py3``.
        engine: Name of the container engine: ``apptainer`` or ``pyxis``.
        base: The job file's directory.
    """
    if image.startswith(("/", "./", "../", "~")) or image.endswith((".sif", ".sqsh")):
        return str(base / expanded(image))
    if "://" in image:
        return image
    if engine == "apptainer":
        return f"docker://{image}"
    registry, separator, rest = image.partition("/")
    # The first part is a registry's where it looks like a host, as Docker tells them.
    is_host = separator and ("." in registry or ":" in registry or registry == "localhost")
    if registry == "docker.io":
        return rest
    return f"{registry}#{rest}" if is_host else image

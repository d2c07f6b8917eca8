"""Command lines of Apptainer and Pyxis for a task's container on a cluster node.

For Docker and Podman, see `tarmac.tasks.containers`.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.files import expanded
from tarmac.tasks.containers import WORK, ContainerRun, mount_line

if TYPE_CHECKING:
    from tarmac.tasks.model import Container

# Pyxis runs a container in a job step that has the container's name.
_FIND_STEP = """\
name=$1
step() {
  squeue -h -s -j "$SLURM_JOB_ID" -o '%i %j' |
    while read -r id its; do if [ "$its" = "$name" ]; then echo "$id"; fi; done
}
"""

# srun answers SIGTERM with SIGKILL to all that it has started, so it runs in a session of its own,
# without SIGTERM. The program gets SIGTERM from Slurm.
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

# Pyxis separates mounts, and the parts of a mount, with these characters.
_PYXIS_MARKS = frozenset(",:\n")


def refuse_unknown_settings(container: Container, engine: str) -> None:
    """Raise a RequestError for container settings that an engine does not support.

    Args:
        container: Container that the task requests.
        engine: Name of the container engine; only ``apptainer`` and ``pyxis`` lack settings.
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
            f"container: {engine} does not support this value of {', '.join(unknown)}",
            hint="Leave it out, or name another engine: engine: podman",
        )


def apptainer_command(run: ContainerRun, *, program: str, image: str) -> tuple[str, ...]:
    """Return the command line that runs a container with Apptainer or Singularity.

    The container sees what it would see under Docker: its directory, its mounts and its GPUs.

    Args:
        run: Container to run, with its command, mounts and GPUs.
        program: Path or name of the program, ``apptainer`` or ``singularity``.
        image: Path of an image file, or the image's name in Apptainer's form.

    Raises:
        RequestError: Apptainer does not support a setting of the container.
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
    # On the command line, a value would show in the process list and be cut at its commas.
    exports = [f'[ -z "${{{name}+x}}" ] || export {prefix}{name}="${name}"' for name in run.names]
    exports += [f"export {prefix}{name}={shlex.quote(v)}" for name, v in run.variables.items()]
    # Without this, Apptainer evaluates values as a shell would.
    exports.append("export APPTAINER_NO_EVAL=1")
    script = "; ".join((*exports, 'exec "$@"'))
    verb = "run" if container.entrypoint is None else "exec"
    command = (*(container.entrypoint or ()), *run.command)
    return ("/bin/sh", "-c", script, "sh", program, verb, *options, image, *command)


def pyxis_command(run: ContainerRun, *, program: str, image: str, node: str) -> tuple[str, ...]:
    """Return the command line that runs a container with Pyxis, in a job step of its own.

    Args:
        run: Container to run, with its command, mounts and variables.
        program: Path or name of ``srun``; Pyxis is a plug-in of it.
        image: Path of an image file, or the image's name in Pyxis' form.
        node: Slurm's name for this node.

    Raises:
        RequestError: Pyxis does not support a setting of the container.
    """
    container = run.container
    refuse_unknown_settings(container, "pyxis")
    command = (*(container.entrypoint or ()), *run.command)
    if not command:
        raise RequestError(
            "container: pyxis needs a command, because it does not run the image's own",
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
    """Return the command line that kills a container of Pyxis at once.

    Args:
        name: Name of the container, which is the job name of its Slurm step.
    """
    return ("/bin/sh", "-c", _FIND_STEP + 'scancel --signal=KILL "$(step)"', "sh", name)


def _pyxis_mounts(run: ContainerRun) -> str:
    mounts: list[str] = []
    for source, target, read_only in run.mounts():
        if _PYXIS_MARKS & {*str(source), *target}:
            raise RequestError(
                f"container: pyxis cannot mount {str(source)!r}: its path has a comma, a colon "
                "or a line break",
                hint="Rename it, or name another engine: engine: apptainer",
            )
        mounts.append(f"{source}:{target}{':ro' if read_only else ''}")
    return ",".join(mounts)


def image_name(image: str, engine: str, base: Path) -> str:
    """Return an image's name in the form of a cluster's container engine.

    The path of an image file, ``./torch.sif``, starts from the job file's directory. A name with
    its own scheme, ``library://``, stays as it is.

    Args:
        image: Image name in Docker's form: ``nvcr.io/nvidia/pytorch:26.01-py3``.
        engine: Name of the container engine: ``apptainer`` or ``pyxis``.
        base: Directory of the job file.
    """
    if image.startswith(("/", "./", "../", "~")) or image.endswith((".sif", ".sqsh")):
        return str(base / expanded(image))
    if "://" in image:
        return image
    if engine == "apptainer":
        return f"docker://{image}"
    registry, separator, rest = image.partition("/")
    # Docker's rule: the first part is a registry if it looks like a host.
    is_host = separator and ("." in registry or ":" in registry or registry == "localhost")
    if registry == "docker.io":
        return rest
    return f"{registry}#{rest}" if is_host else image

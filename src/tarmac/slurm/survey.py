"""A survey of a site's nodes by a small job on each: Python, containers, GPUs, directories."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tarmac.errors import TarmacError
from tarmac.files import scratch_directory
from tarmac.machine import MAX_NODES, NodeFindings, group_alike
from tarmac.slurm.interface import SILENCE_HINT, NoAnswer, Slurm, Submitted
from tarmac.slurm.script import Request, Shape, write_script
from tarmac.slurm.site import SlurmNode, gpus_of
from tarmac.slurm.words import explain_reason, explain_refusal
from tarmac.wording import counted

_LOOK_EVERY_S = 0.5
_DOCKER_S = 20
_BUS = Path("/sys/bus/pci/devices")
_TIME_LIMIT_S = 300
_MEMORY_BYTES = 128 * 2**20

# A network file system may show the answers so long after the jobs' end.
_LATE_S = 10.0

# GPU vendors: PCI's vendor ID and the names of their drivers. The PCI bus shows all GPUs of a
# node, even those that a control group hides from the job.
_MAKERS = {
    "NVIDIA": ("0x10de", ("nvidia",)),
    "AMD": ("0x1002", ("amdgpu",)),
    "Intel": ("0x8086", ("xe", "i915")),
}

# Monitoring programs for GPUs of vendors other than NVIDIA.
_TOOLS = {"AMD": ("rocm-smi", "amd-smi"), "Intel": ("xpu-smi",)}

# Kinds of GPU that are parts of a GPU (MIG), which no bus shows: ``1g.10gb``.
_PART = re.compile(r"\d+g\.\d+gb")

# The script writes a line for each finding.
_LOOK = """\
out={directory}/$SLURMD_NODENAME
{{
  echo "user=$(id -u)"
  echo "home=$([ -w "$HOME" ] && echo yes || echo no)"
  for name in python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3; do
    found=$(command -v $name) && version=$("$found" -I -c 'import platform; \
print(platform.python_version())') && echo "python=$version $found" && break
  done
  srun --help 2>/dev/null | grep -q -e --container-image && echo "containers=pyxis"
  for name in apptainer singularity; do
    command -v $name >/dev/null && echo "containers=apptainer" && break
  done
  command -v podman >/dev/null && echo "containers=podman"
  # Docker is of use to those alone whom its daemon answers.
  command -v docker >/dev/null && timeout {docker_s} docker version >/dev/null 2>&1 && \
echo "containers=docker"
  for device in {bus}/*; do
    case $(cat "$device/class" 2>/dev/null) in 0x03*|0x12*) ;; *) continue ;; esac
    driver=$(readlink "$device/driver")
    echo "gpu=$(cat "$device/vendor") ${{driver##*/}}"
  done
  for name in rocm-smi amd-smi xpu-smi; do
    command -v $name >/dev/null && echo "tool=$name"
  done
  echo "interpreter=$([ -x {python} ] && echo yes || echo no)"
}} > "$out.part" && mv "$out.part" "$out"
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlurmFindings(NodeFindings):
    """The findings on a node of Slurm.

    Attributes:
        node: Node as sinfo shows it.
        python: Version and path of the newest interpreter from 3.9 on; empty for none.
        containers: Names of the container engines on the node.
        num_gpus: Number of GPUs with a driver; a larger number in Slurm is a fault.
        makers: Number of GPUs by vendor: ``{"AMD": 8}``.
        user_id: ID of the user on the node; -1 where unknown.
        has_interpreter: Whether the node has Tarmac's own interpreter, which stages inputs, outputs
            and environments.
    """

    node: SlurmNode
    python: str = ""
    containers: Sequence[str] = ()
    num_gpus: int = 0
    makers: Mapping[str, int] = dataclasses.field(default_factory=dict)
    user_id: int = -1
    has_interpreter: bool = False


def survey_nodes(
    slurm: Slurm,
    directory: Path,
    *,
    python: str,
    variables: Mapping[str, str],
    shape: Shape | None = None,
    patience_s: float = 120.0,
    most: int = MAX_NODES,
) -> Sequence[SlurmFindings]:
    """Survey a site's nodes by a job on each node; with many nodes, on one of each kind.

    Args:
        slurm: Commands of the site's Slurm.
        directory: Directory that the nodes should see, such as the parent of runs; gets a temporary
            directory.
        python: Path of Tarmac's own interpreter, which stages inputs where nodes have it too.
        variables: Environment variables of the jobs.
        shape: Partition, account and the like; the jobs request one core and little memory.
        patience_s: Seconds to wait for the jobs' answers. Default 120.
        most: Most nodes to survey. A site with more nodes gets a job on one node of each kind, for
            so many kinds.

    Raises:
        TarmacError: Slurm does not answer.
    """
    nodes = slurm.nodes()
    if isinstance(nodes, NoAnswer):
        raise TarmacError(
            f"Slurm does not answer: {nodes.command}: {nodes.words}", hint=SILENCE_HINT
        )
    shape = shape or Shape()
    groups = group_alike(
        [node for node in nodes if _belongs(node, shape)],
        most,
        kind=_kind,
        is_usable=lambda node: node.is_usable,
    )
    with scratch_directory(directory) as place:
        survey = _Survey(slurm, place, dict(variables), shape, python)
        try:
            for node, *_ in groups:
                survey.submit(node)
            survey.wait(patience_s)
            return [
                dataclasses.replace(
                    survey.findings(node), alike=tuple(other.name for other in others)
                )
                for node, *others in groups
            ]
        finally:
            # Jobs that have not begun by now would look for a deleted directory.
            slurm.cancel(names=survey.names)


class _Survey:
    """The survey's jobs."""

    def __init__(
        self, slurm: Slurm, place: Path, variables: dict[str, str], shape: Shape, python: str
    ) -> None:
        self._slurm, self._place, self._variables = slurm, place, variables
        self._shape, self._python = shape, python
        self._mark = secrets.token_hex(4)
        self._asked: list[str] = []
        self._submitted: dict[str, Submitted] = {}
        self._left: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    @property
    def names(self) -> Sequence[str]:
        """The names of the jobs that may be in the queue."""
        return self._asked

    def submit(self, node: SlurmNode) -> None:
        """Submit the job of a node, unless Slurm starts nothing there."""
        if not node.is_usable:
            self._problems[node.name] = f"is {node.state}" + (
                f": {node.reason}" if node.reason else ""
            )
            return
        look = look_script(self._place, self._python)
        request = Request(
            name=f"tarmac-look-{self._mark}-{node.name}",
            shape=dataclasses.replace(
                self._shape,
                memory_bytes=_MEMORY_BYTES,
                time_limit_s=_TIME_LIMIT_S,
                partition=node.partition,
                extra=(*self._shape.extra, f"--nodelist={node.name}"),
            ),
            command=look,
            directory=self._place,
            output=f"{node.name}.engine",
        )
        script = write_script(request)
        # Record the name first: after no answer, the job may still have been accepted.
        self._asked.append(script.name)
        answer = self._slurm.submit(script, self._variables)
        if isinstance(answer, Submitted):
            self._submitted[node.name] = answer
        elif isinstance(answer, NoAnswer):
            self._problems[node.name] = f"{answer.command}: {answer.words}"
        else:
            self._problems[node.name] = explain_refusal(answer).splitlines()[0]

    def wait(self, patience_s: float) -> None:
        """Wait until all nodes have answered, no job is left, or the time is over."""
        end = time.monotonic() + patience_s
        gone_since: float | None = None
        while not all(self._answer(name) for name in self._submitted):
            shown = self._slurm.queue(self.names)
            if isinstance(shown, NoAnswer):
                self._left = dict.fromkeys(self._submitted, f"{shown.command}: {shown.words}")
            else:
                reasons = {queued.name: explain_reason(queued.reason) for queued in shown}
                self._left = {
                    name: reasons[submitted.name]
                    for name, submitted in self._submitted.items()
                    if submitted.name in reasons
                }
            now = time.monotonic()
            if self._left:
                gone_since = None
            elif gone_since is None:
                gone_since = now
            if now > end or (gone_since is not None and now > gone_since + _LATE_S):
                return
            time.sleep(_LOOK_EVERY_S)

    def findings(self, node: SlurmNode) -> SlurmFindings:
        """Return the present findings on a node."""
        if node.name in self._problems:
            return SlurmFindings(
                name=node.name, node=node, state="failed", words=(self._problems[node.name],)
            )
        answer = self._answer(node.name)
        if answer is not None:
            return read_look(node, answer)
        if node.name in self._left:
            return SlurmFindings(
                name=node.name, node=node, state="waits", words=(self._left[node.name],)
            )
        words = (
            f"its job has ended, and its answer is not seen in {self._place.parent}: is that "
            "another directory there? Choose one that all nodes see"
        )
        return SlurmFindings(name=node.name, node=node, state="blind", words=(words,))

    def _answer(self, name: str) -> str | None:
        # Network file systems ask their server when a directory is opened.
        if name not in os.listdir(self._place):  # noqa: PTH208 - names alone
            return None
        return (self._place / name).read_text(errors="replace")


def _belongs(node: SlurmNode, shape: Shape) -> bool:
    if shape.partition:
        return node.partition == shape.partition
    return node.is_default


def _kind(node: SlurmNode) -> tuple[object, ...]:
    return (node.partition, node.cpus, node.memory_bytes, node.gres, node.features)


def look_script(directory: Path, python: str, bus: Path = _BUS) -> str:
    """Return the lines of shell that survey the node on which they run.

    Args:
        directory: Directory that gets a file of findings, named after the node.
        python: Path of Tarmac's own interpreter.
        bus: Directory where the kernel shows the devices on PCI.
    """
    words = {"directory": str(directory), "python": python, "bus": str(bus)}
    quoted = {name: shlex.quote(word) for name, word in words.items()}
    return _LOOK.format(**quoted, docker_s=_DOCKER_S)


def read_look(node: SlurmNode, answer: str) -> SlurmFindings:
    """Parse the findings on a node.

    Args:
        node: Node as sinfo shows it.
        answer: Content of the file that `look_script` wrote.
    """
    pairs = [line.partition("=")[::2] for line in answer.splitlines()]
    values = dict(pairs)
    words = []
    if not values.get("python"):
        words.append("has no Python from 3.9 on, which starts tasks; load one by `setup`")
    if values.get("user") != str(os.getuid()):
        words.append(f"you are user {values.get('user')} there, and {os.getuid()} here")
    if values.get("home") != "yes":
        words.append("your home directory cannot be written there")
    makers = _count_gpus([value for name, value in pairs if name == "gpu"])
    tools = {value for name, value in pairs if name == "tool"}
    num_gpus = sum(makers.values())
    parts = sum(gres.count for gres in node.gres if _PART.search(gres.kind))
    num_expected = gpus_of(node) - parts
    if num_gpus < num_expected:
        have = ", ".join(f"{maker}'s driver has {count}" for maker, count in makers.items())
        words.append(
            f"Slurm gives {counted(num_expected, 'GPU')} there; {have or 'no driver has any'}"
        )
    for maker in _TOOLS.keys() & makers.keys() if num_expected else ():
        words.append(f"its GPUs are {maker}'s: tasks with GPUs start only on NVIDIA's")
        if tools.isdisjoint(_TOOLS[maker]):
            words.append(f"has no {' or '.join(_TOOLS[maker])}, which the check needs")
    return SlurmFindings(
        name=node.name,
        node=node,
        state="looked",
        words=words,
        python=values.get("python", ""),
        containers=[value for name, value in pairs if name == "containers"],
        num_gpus=num_gpus,
        makers=makers,
        user_id=int(values.get("user") or -1),
        has_interpreter=values.get("interpreter") == "yes",
    )


def _count_gpus(devices: Sequence[str]) -> dict[str, int]:
    """Return the number of GPUs with a driver of their own vendor, by vendor.

    Args:
        devices: Vendor and driver of each device on the bus: ``0x10de nvidia``.
    """
    counts: dict[str, int] = {}
    for vendor, _, driver in (device.partition(" ") for device in devices):
        for maker, (number, drivers) in _MAKERS.items():
            if vendor == number and driver in drivers:
                counts[maker] = counts.get(maker, 0) + 1
    return counts

"""A site's nodes and GPUs, and the ``--gres`` values that request GPUs."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence

from tarmac.errors import RequestError, unknown_name
from tarmac.machine import fitting_names

# Resources that divide GPUs, in order of preference: shard (since 22.05) lets several jobs share
# a GPU; mps needs NVIDIA's daemon.
_PARTS = ("shard", "mps")

_GRES = re.compile(
    r"(?P<name>[\w-]+)(?::(?P<kind>[^:(]*[^\d:(][^:(]*))?(?::(?P<count>\d{1,10})\w?)?"
)


@dataclasses.dataclass(frozen=True)
class Gres:
    """An amount of a generic resource on a node.

    Attributes:
        name: Name of the resource, such as ``gpu``, ``shard`` or ``mps``.
        kind: Type of the resource, such as ``a100``; empty for none.
        count: Amount that the node has.
    """

    name: str
    kind: str
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlurmNode:
    """A node in one of its partitions, as sinfo shows it.

    Attributes:
        name: Name of the node in Slurm.
        partition: Name of a partition that has the node.
        is_default: Whether jobs without a partition go to this partition.
        state: State by sinfo, such as ``idle``, ``mixed`` or ``drained*``.
        cpus: Number of CPUs of the whole node.
        memory_bytes: Memory of the whole node.
        gres: Generic resources of the node, such as GPUs.
        features: Features that a `constraint` may name.
        time_limit: Time limit of the partition, as Slurm writes it: ``1-00:00:00``, ``infinite``.
        reason: Reason why the node is down or drained, as an operator or Slurm wrote it.
    """

    name: str
    partition: str
    is_default: bool
    state: str
    cpus: int
    memory_bytes: int
    gres: tuple[Gres, ...] = ()
    features: tuple[str, ...] = ()
    time_limit: str = ""
    reason: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether jobs can start on the node, now or once others have ended."""
        return re.match(r"idle|mix|alloc|comp|plan|resv|reserved|power", self.state) is not None


def read_gres(words: str) -> tuple[Gres, ...]:
    """Parse sinfo's column of generic resources: ``gpu:a100:4(S:0-1),shard:a100:16``."""
    resources = []
    # Brackets hold sockets, with commas of their own.
    for part in re.sub(r"\([^)]*\)", "", words).split(","):
        match = _GRES.fullmatch(part.strip())
        if match is not None:
            resources.append(Gres(match["name"], match["kind"] or "", int(match["count"] or 1)))
    return tuple(resources)


def gpus_of(node: SlurmNode) -> int:
    """Return the number of GPUs of a node."""
    return sum(gres.count for gres in node.gres if gres.name == "gpu")


def partitions_with_gpus(nodes: Iterable[SlurmNode]) -> str:
    """Return a sentence that names the partitions with GPUs; empty where none has GPUs."""
    names = sorted({node.partition for node in nodes if gpus_of(node)})
    if not names:
        return ""
    return f"GPUs are in the partitions {', '.join(names)}: `partition` in options.slurm."


def request_gpus(
    nodes: Iterable[SlurmNode] | None, gpus: float, *, kind: str = "", partition: str = ""
) -> str:
    """Return the value of ``--gres`` that gives each node so many GPUs.

    In all versions, ``--gres`` counts per node and lets all processes of a job see its GPUs.
    ``--gpus-per-task`` hides GPUs, which breaks communication between them.

    Args:
        nodes: Nodes of the site; None where they are unknown.
        gpus: GPUs for each node; below 1, a part of one GPU.
        kind: Type of the GPUs; empty for any.
        partition: Partition whose nodes count; empty for all nodes.

    Raises:
        RequestError: No node has such GPUs, or a part of a GPU is requested of unknown nodes.
    """
    if nodes is None:
        if gpus < 1:
            raise RequestError(
                f"{gpus:g} of a GPU is requested, but the name of a part differs between sites",
                hint="Run this where Slurm's commands are installed: they show what the nodes "
                "have.",
            )
        return _whole_gpus(gpus, kind)
    everywhere = [*nodes]
    nodes = [node for node in everywhere if partition in ("", node.partition)]
    where = f"partition {partition!r}" if partition else "this Slurm"
    gpu = [gres for node in nodes for gres in node.gres if gres.name == "gpu"]
    if not gpu:
        raise RequestError(
            f"no node of {where} has GPUs that Slurm knows of",
            hint=partitions_with_gpus(everywhere)
            or "`sinfo -o '%N %P %G'` shows what nodes have; GPUs are there by `Gres=gpu:N`.",
        )
    kinds = {gres.kind for gres in gpu if gres.kind}
    # Sites write kinds in lower case, or as the vendor does.
    kind = next(iter(fitting_names(kinds, kind)), kind) if kind and kind not in kinds else kind
    if kind and not kinds:
        raise RequestError(
            f"GPUs of kind {kind!r} are requested, and the GPUs of {where} have no kinds",
            hint="Leave the kind out; `sinfo -o '%N %G'` shows what nodes have.",
        )
    if kind and kind not in kinds:
        raise unknown_name("kind of GPU", kind, dict.fromkeys(kinds, ""))
    if gpus >= 1:
        most = max(_count(node, "gpu", kind) for node in nodes)
        if gpus > most:
            which = f"GPUs of kind {kind!r}" if kind else "GPUs"
            raise RequestError(
                f"{gpus:g} {which} are requested on a node, and no node of {where} has more "
                f"than {most}",
                hint="`sinfo -o '%N %P %G'` shows what nodes have. Tasks that can use several "
                "nodes ask for `nodes`.",
            )
        return _whole_gpus(gpus, kind)
    return _part_of_gpu(nodes, gpus, kind, where)


def _whole_gpus(gpus: float, kind: str) -> str:
    return ":".join(("gpu", *([kind] if kind else []), f"{gpus:g}"))


def _part_of_gpu(nodes: Sequence[SlurmNode], gpus: float, kind: str, where: str) -> str:
    for name in _PARTS:
        # Use the fewest parts per GPU, so that the share is never smaller than requested.
        per_gpu = [
            _count(node, name, kind) / _count(node, "gpu", kind)
            for node in nodes
            if _count(node, name, kind) and _count(node, "gpu", kind)
        ]
        if per_gpu:
            return f"{name}:{math.ceil(min(per_gpu) * gpus)}"
    raise RequestError(
        f"{gpus:g} of a GPU is requested, and no node of {where} cuts GPUs into parts",
        hint="Ask for whole GPUs, or ask the site for Slurm's gres/shard or gres/mps.",
    )


def _count(node: SlurmNode, name: str, kind: str) -> int:
    return sum(gres.count for gres in node.gres if gres.name == name and kind in ("", gres.kind))

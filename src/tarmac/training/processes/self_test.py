"""A test of the all-reduce before the first step, which finds the pairs of devices that fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from tarmac.errors import PeerFailed, TarmacError

# Large enough that every algorithm of NCCL and Gloo uses all its chunks, and small enough to take
# well under a second on the slowest links.
_NUM_ELEMENTS = 1 << 20

# Sums of numbers below this are exact in fp32 for every plausible number of ranks.
_PERIOD = 251

_HINT = (
    "Peer transfers that lose data are most often redirected by the IOMMU or PCIe access control "
    "(ACS).\nTry: NCCL_P2P_DISABLE=1 tarmac train ...\n"
    "See which link it is: nvidia-smi topo -m. Or train without peer transfers: --strategy towers"
)


def check_all_reduce(
    names: Sequence[str],
    rank: int,
    device: torch.device,
    all_reduce: Callable[..., object] = dist.all_reduce,
) -> None:
    """Check an all-reduce of known numbers over all ranks and, if it is wrong, over each pair.

    Args:
        names: Host and device of each rank, by rank.
        rank: Global rank of this process, from 0.
        device: Device of this process.
        all_reduce: All-reduce to test; by default that of `torch.distributed`.

    Raises:
        TarmacError: The sum is wrong; the message names the pairs. All ranks but the first raise
            `PeerFailed`, so that only one reports the error.
    """
    ranks = list(range(len(names)))
    if _agree(_is_right(ranks, rank, device, all_reduce, None)):
        return
    wrong = []
    for pair in itertools.combinations(ranks, 2):
        group = dist.new_group(list(pair))
        is_right = rank not in pair or _is_right(list(pair), rank, device, all_reduce, group)
        if not _agree(is_right):
            wrong.append(pair)
    if rank != 0:
        raise PeerFailed(blame(names, wrong))
    raise TarmacError(blame(names, wrong), hint=_HINT)


def blame(names: Sequence[str], wrong: Sequence[tuple[int, int]]) -> str:
    """Return a message that names the devices whose all-reduce is wrong.

    Args:
        names: Host and device of each rank, by rank.
        wrong: Pairs of ranks with a wrong sum; empty if only the sum over all ranks was wrong.
    """
    if not wrong:
        return (
            f"the all-reduce self-test over {len(names)} devices gave a wrong sum, "
            "although each pair of them gave a right one"
        )
    pairs = ", ".join(f"{names[a]} (rank {a}) and {names[b]} (rank {b})" for a, b in wrong)
    return f"the all-reduce self-test gave a wrong sum between {pairs}"


def stuck(names: Sequence[str], unreached: str = "") -> str:
    """Return the part of a message that explains a hang in the self-test.

    Args:
        names: Host and device of each rank, such as ``node1 cuda:0``, by rank.
        unreached: Text from `find_unreached` that names the unreachable hosts; empty if none are
            known.
    """
    if unreached:
        return (
            f", in the all-reduce self-test: {unreached}; is there a firewall between these hosts, "
            "or does the name of the second resolve to another address there?"
        )
    fix = "try NCCL_P2P_DISABLE=1, or --strategy towers"
    if len({name.partition(" ")[0] for name in names}) > 1:
        fix = (
            "name the network between these hosts by NCCL_SOCKET_IFNAME, and GLOO_SOCKET_IFNAME "
            "for CPUs; NCCL_DEBUG=INFO shows which was taken"
        )
    return f", in the all-reduce self-test over {', '.join(names)}; {fix}"


def _is_right(
    ranks: Sequence[int],
    rank: int,
    device: torch.device,
    all_reduce: Callable[..., object],
    group: dist.ProcessGroup | None,
) -> bool:
    tensor = _pattern(rank, device)
    all_reduce(tensor, group=group)
    expected = torch.stack([_pattern(other, device) for other in ranks]).sum(0)
    return torch.equal(tensor, expected)


def _pattern(rank: int, device: torch.device) -> torch.Tensor:
    """Return numbers that differ from rank to rank and from place to place."""
    # Repeat a short period: a million remainders would take 30 ms of a core.
    place = torch.arange(_PERIOD, device=device)
    period = ((place * (2 * rank + 3) + rank) % _PERIOD).float()
    return period.repeat(_NUM_ELEMENTS // _PERIOD + 1)[:_NUM_ELEMENTS]


def _agree(is_right: bool) -> bool:
    """Return whether all ranks report success, by Gloo, without the tested all-reduce."""
    answers: list[bool] = [False] * dist.get_world_size()
    dist.all_gather_object(answers, is_right)
    return all(answers)

"""The facts about several ranks, and the results of their all-reduces."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from pydantic import BaseModel, ConfigDict

from tarmac.checks.network import Network


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rank(_Facts):
    """A rank and its machine; None stands for an unknown value.

    Attributes:
        rank: Global rank of the process, from 0.
        host: Name of its host, by Slurm or by the machine itself.
        address: Address by which the other ranks reach its host.
        driver: Version of NVIDIA's driver on its host.
        torch: Version of PyTorch on this rank.
        torch_cuda: CUDA version that PyTorch is built for.
        nccl: Version of NCCL that PyTorch uses.
        gpu: UUID of its GPU, or the index where PyTorch reports no UUID.
        gpu_name: Name of its GPU, as PyTorch reports it.
        clock_off_s: Difference of its clock from rank 0's, in seconds.
        modules: Loaded kernel modules that matter.
        network: Network interfaces and ports of its machine.
        environment: Environment variables that affect GPUs and their messages.
        problem: Reason why its PyTorch does not answer; empty where it does.
    """

    rank: int
    host: str
    address: str = ""
    driver: str | None = None
    torch: str | None = None
    torch_cuda: str | None = None
    nccl: str | None = None
    gpu: str | None = None
    gpu_name: str | None = None
    clock_off_s: float | None = None
    modules: tuple[str, ...] = ()
    network: Network = Network()
    environment: Mapping[str, str] = {}
    problem: str = ""


class Pair(_Facts):
    """The all-reduce of two hosts, or of two ranks of one host.

    Attributes:
        round: Round in which they were paired, from 0.
        names: Names of the two hosts, or of the two ranks.
        seconds: Seconds of an all-reduce: the median of the slowest rank; None where it failed.
        problem: Reason for the failure, with the rank; empty where it worked.
        own: Names of the members whose own process failed, rather than their partner's.
    """

    round: int
    names: tuple[str, str]
    seconds: float | None = None
    problem: str = ""
    own: tuple[str, ...] = ()


class Ranks(_Facts):
    """Several ranks, and the results of their all-reduces.

    Attributes:
        size: Number of ranks that the launcher started.
        limit_s: Seconds to wait for all ranks.
        ranks: Ranks that connected in time, in ascending order.
        missing: Numbers of the ranks that did not connect in time.
        lost: Ranks that were lost later, from rank to reason.
        message_bytes: Size of the message that each pair all-reduces, in bytes.
        pairs: Results of all pairs, in the order of their rounds.
    """

    size: int
    limit_s: float
    ranks: tuple[Rank, ...]
    missing: tuple[int, ...] = ()
    lost: Mapping[int, str] = {}
    message_bytes: int = 0
    pairs: tuple[Pair, ...] = ()

    @property
    def hosts(self) -> dict[str, list[Rank]]:
        """The ranks of each host."""
        hosts: dict[str, list[Rank]] = {}
        for rank in self.ranks:
            hosts.setdefault(rank.host, []).append(rank)
        return hosts

    @property
    def units(self) -> dict[str, list[Rank]]:
        """The units to pair, by name: the hosts, or the ranks of a single host."""
        if len(self.hosts) > 1:
            return self.hosts
        return {f"rank {rank.rank}": [rank] for rank in self.ranks}

    def name_of(self, rank: int) -> str:
        """Return the name of a rank, with its host where there are several and it is known."""
        hosts = [known.host for known in self.ranks if known.rank == rank]
        return f"rank {rank} on {hosts[0]}" if hosts and len(self.hosts) > 1 else f"rank {rank}"

    def median_s(self, name: str, *, of_others: bool = False) -> float | None:
        """Return the median seconds of the pairs with a unit, or of those without it."""
        times = [
            pair.seconds
            for pair in self.pairs
            if pair.seconds is not None and (name in pair.names) != of_others
        ]
        return median(times) if times else None

"""Recorded failures of ``failures/ranks.toml``, by code."""

from __future__ import annotations

from typing import Any

from recorded.evidence import machine, with_gpu
from tarmac.checks.evidence import Evidence
from tarmac.checks.network import Network, Port
from tarmac.checks.ranked import Pair, Rank, Ranks
from tarmac.checks.ranks.rounds import pair_up

_ACTIVE = Port(name="mlx5_0/1", state="ACTIVE", physical="LinkUp", layer="InfiniBand")
_UNUSED = Port(name="mlx5_1/1", state="DOWN", physical="Polling", layer="InfiniBand")


def host(number: int, **facts: Any) -> Rank:
    known = {
        "driver": "580.126.20",
        "torch": "2.13.0+cu130",
        "torch_cuda": "13.0",
        "nccl": "2.29.7",
        "gpu": f"uuid-{number}",
        "gpu_name": "NVIDIA H200",
        "clock_off_s": 0.002,
        "modules": ("nvidia", "nvidia_uvm"),
        "network": Network(interfaces=("eth0", "lo"), ports=(_ACTIVE,), open_module=True),
    }
    return Rank(rank=number, host=f"node{number}", **(known | facts))


def hosts(
    *ranks: Rank, slow: str = "", times: float = 1.0, failed: str = "", own: bool = False, **facts
) -> Evidence:
    """Return four hosts, or those that are given, of which one may be slow or fail."""
    members = ranks or tuple(map(host, range(4)))
    pairs = []
    for number, names in enumerate(pair_up([rank.host for rank in members], 7)):
        for pair in names:
            seconds = 0.0014 * (times if slow in pair else 1.0 + 0.05 * number)
            fields: dict[str, Any] = {"round": number, "names": pair, "seconds": seconds}
            if failed in pair:
                problem = "rank 2: waits at: rendezvous, after 60 s"
                fields |= {"seconds": None, "problem": problem, "own": (failed,) if own else ()}
            pairs.append(Pair(**fields))
    known = {"size": len(members), "limit_s": 120, "message_bytes": 1 << 28, "pairs": tuple(pairs)}
    return Evidence(inventory=machine(), ranks=Ranks(ranks=members, **(known | facts)))


def four(number: int, **facts: Any) -> Evidence:
    """Return four hosts, of which one differs."""
    return hosts(*(host(n, **(facts if n == number else {})) for n in range(4)))


def alone(variables: dict[str, str] | None = None, **network: Any) -> Evidence:
    inventory = with_gpu(network=Network(**network), environment=variables or {})
    return Evidence(inventory=inventory)


_NAMES = ("docker0", "ens3", "lo")

RECORDED: dict[str, list[Evidence]] = {
    "rank-missing": [hosts(size=5, missing=(4,))],
    "rank-lost": [
        hosts(failed="node2", own=True),
        # Nobody says that it is at fault: it has failed with three who succeed with each other.
        hosts(failed="node2"),
        hosts(lost={2: "its connection has ended"}),
        four(1, torch=None, problem="gives no sign at: import, after 120 s"),
    ],
    "pair-wrong": [
        hosts(
            pairs=(
                Pair(
                    round=0,
                    names=("node0", "node1"),
                    seconds=0.1,
                    problem="rank 1 got a wrong sum",
                ),
            )
        )
    ],
    "host-slow": [hosts(slow="node3", times=2.0)],
    "hosts-differ": [
        four(2, nccl="2.27.3", torch="2.12.1+cu128"),
        four(0, environment={"NCCL_IB_HCA": "mlx5_0"}),
    ],
    "interface-missing": [
        alone({"NCCL_SOCKET_IFNAME": "eth0"}, interfaces=_NAMES),
        alone({"NCCL_SOCKET_IFNAME": "=ens"}, interfaces=_NAMES),
        alone({"NCCL_SOCKET_IFNAME": "^docker,lo,ens"}, interfaces=_NAMES),
        alone({"GLOO_SOCKET_IFNAME": "ens"}, interfaces=_NAMES),
        four(3, environment={"NCCL_SOCKET_IFNAME": "ib0"}),
    ],
    "ib-port-down": [
        alone(ports=(_ACTIVE.model_copy(update={"state": "INIT"}),)),
        four(1, network=Network(ports=(_ACTIVE.model_copy(update={"state": "DOWN"}),))),
    ],
    "peermem-missing": [alone(ports=(_ACTIVE,), open_module=False)],
    "clock-off": [four(3, clock_off_s=-31.2)],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "rank-missing": [hosts()],
    "rank-lost": [
        hosts(slow="node3", times=2.0),
        # Nobody has succeeded: that is no single host's fault.
        hosts(host(0), host(1), failed="node1"),
    ],
    "pair-wrong": [hosts(failed="node2")],
    "host-slow": [
        hosts(slow="node3", times=1.4),
        # Of two, nobody can tell which one is slow.
        hosts(host(0), host(1), slow="node1", times=9.0),
    ],
    "hosts-differ": [
        hosts(),
        # GPUs of a rank are its own.
        four(1, environment={"CUDA_VISIBLE_DEVICES": "1"}),
    ],
    "interface-missing": [
        alone({"NCCL_SOCKET_IFNAME": "ens"}, interfaces=_NAMES),
        alone({"NCCL_SOCKET_IFNAME": "=ens3"}, interfaces=_NAMES),
        alone({"NCCL_SOCKET_IFNAME": "^docker,lo"}, interfaces=_NAMES),
        alone({"NCCL_SOCKET_IFNAME": "ib,ens"}, interfaces=_NAMES),
        alone({"GLOO_SOCKET_IFNAME": "ens3"}, interfaces=_NAMES),
    ],
    # A second port without a cable.
    "ib-port-down": [alone(ports=(_ACTIVE, _UNUSED)), hosts()],
    "peermem-missing": [
        alone(ports=(_ACTIVE,), open_module=True),
        alone(ports=(_UNUSED,), open_module=False),
    ],
    "clock-off": [four(3, clock_off_s=0.4)],
}

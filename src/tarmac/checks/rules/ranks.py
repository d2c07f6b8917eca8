"""Rules on several ranks: hosts that are slow, lost or different from the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence
    from tarmac.checks.network import Network
    from tarmac.checks.ranked import Rank, Ranks
    from tarmac.checks.rules.rule import Hits, Rule

# A host is slow where its all-reduces take more than this many times the others' time. Healthy
# hosts of one network differ by some percent; a host that has lost one of two links takes twice the
# time.
_SLOW = 1.5

# Fewest units to compare: of only two, it is unknown which one is slow.
_FEWEST = 3

_CLOCK_OFF_S = 2.0

# Variables that differ between ranks by design.
_OWN_VARIABLES = frozenset({"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})


def _ranks_missing(evidence: Evidence) -> Hits:
    if evidence.ranks is not None:
        for rank in evidence.ranks.missing:
            yield f"rank {rank}", f"did not join within {evidence.ranks.limit_s:g} s"


def _rank_lost(evidence: Evidence) -> Hits:
    ranks = evidence.ranks
    if ranks is None:
        return
    blamed: dict[str, str] = {}
    for name, members in ranks.units.items():
        for member in members:
            words = ranks.lost.get(member.rank) or member.problem
            if words:
                blamed[name] = f"rank {member.rank}: {words}"
    for pair in ranks.pairs:
        for name in pair.own:
            blamed.setdefault(name, pair.problem)
    succeeded = {name for pair in ranks.pairs if pair.seconds is not None for name in pair.names}
    for name in ranks.units:
        # Blame a unit that failed with partners that succeeded elsewhere. Where no unit succeeds,
        # none is blamed.
        own = [pair for pair in ranks.pairs if name in pair.names]
        partners = {other for pair in own for other in pair.names} - {name}
        if own and name not in succeeded and partners & succeeded:
            blamed.setdefault(name, f"all of its {len(own)} pairs failed; {own[0].problem}")
    yield from blamed.items()


def _pair_wrong(evidence: Evidence) -> Hits:
    for pair in evidence.ranks.pairs if evidence.ranks is not None else ():
        if pair.problem and pair.seconds is not None:
            yield " and ".join(pair.names), pair.problem


def _host_slow(evidence: Evidence) -> Hits:
    ranks = evidence.ranks
    if ranks is None or len(ranks.units) < _FEWEST:
        return
    for name in ranks.units:
        own, others = ranks.median_s(name), ranks.median_s(name, of_others=True)
        fastest = min((p.seconds for p in ranks.pairs if name in p.names and p.seconds), default=0)
        # All of its pairs must be slow, as a slow partner explains only one of them.
        if own and others and min(own, fastest) > _SLOW * others:
            rates = [f"{ranks.message_bytes / seconds / 1e9:.3g} GB/s" for seconds in (own, others)]
            yield name, f"{rates[0]} with each of its partners, {rates[1]} between the others"


def _hosts_differ(evidence: Evidence) -> Hits:
    if evidence.ranks is None:
        return
    first_of = {host: members[0] for host, members in evidence.ranks.hosts.items()}
    for name in ("driver", "torch", "torch_cuda", "nccl", "gpu_name"):
        known = {host: getattr(rank, name) for host, rank in first_of.items()}
        title = name.replace("_name", "").replace("_", " with CUDA ")
        yield from _difference(title, known)
    names = {name for rank in first_of.values() for name in rank.environment} - _OWN_VARIABLES
    for name in sorted(names):
        values = {host: rank.environment.get(name) for host, rank in first_of.items()}
        yield from _difference(name, values)


def _difference(title: str, values: Mapping[str, str | None]) -> Hits:
    places: dict[str | None, list[str]] = {}
    for host, value in values.items():
        places.setdefault(value, []).append(host)
    if len(places) > 1:
        # The rarest values come first.
        ordered = sorted(places.items(), key=lambda item: len(item[1]))
        words = [f"{value or 'none'} on {', '.join(hosts[:8])}" for value, hosts in ordered]
        yield title, "; ".join(words)


def _clock_off(evidence: Evidence) -> Hits:
    if evidence.ranks is None:
        return
    for host, members in evidence.ranks.hosts.items():
        off = members[0].clock_off_s
        if off is not None and abs(off) > _CLOCK_OFF_S:
            yield host, f"{off:+.1f} s from rank 0's"


def _machines(evidence: Evidence) -> Iterator[tuple[str, Mapping[str, str], Network]]:
    """Yield the name, variables and network of this machine, or of each host of the ranks."""
    if evidence.ranks is None:
        yield "machine", evidence.inventory.environment, evidence.inventory.network
        return
    for host, members in evidence.ranks.hosts.items():
        yield host, members[0].environment, members[0].network


def _interface_missing(evidence: Evidence) -> Hits:
    for where, environment, network in _machines(evidence):
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            value = environment.get(name, "")
            if value and network.interfaces and not _names_interface(name, value, network):
                shown = ", ".join(network.interfaces)
                yield where, f"{name}={value}, the interfaces are {shown}"


def _names_interface(variable: str, value: str, network: Network) -> bool:
    """Return whether a variable leaves an interface to use, by the rules of NCCL and Gloo."""
    if variable.startswith("GLOO"):
        return all(name in network.interfaces for name in value.split(","))
    is_exact, is_excluded = value.lstrip("^").startswith("="), value.startswith("^")
    listed = value.lstrip("^=").split(",")
    names = [
        name
        for name in network.interfaces
        if any(name == part if is_exact else name.startswith(part) for part in listed)
    ]
    return len(names) < len(network.interfaces) if is_excluded else bool(names)


def _ib_port_down(evidence: Evidence) -> Hits:
    machines = list(_machines(evidence))
    active = {
        port.name for _, _, network in machines for port in network.ports if port.state == "ACTIVE"
    }
    for where, _, network in machines:
        down = [
            f"{port.name} is {port.state}, {port.physical}"
            for port in network.ports
            # A port may have no cable on purpose, unless another host uses the same port.
            if port.state in ("INIT", "ARMED") or (port.state == "DOWN" and port.name in active)
        ]
        if down:
            yield where, "; ".join(down)


def _peermem_missing(evidence: Evidence) -> Hits:
    for where, modules, network in _modules(evidence):
        is_used = any(port.state == "ACTIVE" for port in network.ports)
        if is_used and network.open_module is False and "nvidia_peermem" not in modules:
            yield where, "nvidia_peermem is not loaded; the kernel module is the proprietary one"


def _modules(evidence: Evidence) -> Iterator[tuple[str, tuple[str, ...], Network]]:
    ranks: Ranks | None = evidence.ranks
    if ranks is None:
        yield "machine", evidence.inventory.driver.modules, evidence.inventory.network
        return
    first: list[tuple[str, Rank]] = [(host, members[0]) for host, members in ranks.hosts.items()]
    for host, rank in first:
        yield host, rank.modules, rank.network


RULES: Mapping[str, Rule] = {
    "rank-missing": _ranks_missing,
    "rank-lost": _rank_lost,
    "pair-wrong": _pair_wrong,
    "host-slow": _host_slow,
    "hosts-differ": _hosts_differ,
    "interface-missing": _interface_missing,
    "ib-port-down": _ib_port_down,
    "peermem-missing": _peermem_missing,
    "clock-off": _clock_off,
}

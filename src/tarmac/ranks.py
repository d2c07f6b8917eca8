"""This node's ranks of a training on several nodes: one rank for each device.

The module imports no PyTorch: that import takes as long as the ranks, which repeat it, take to
start.

A launcher, such as Tarmac's agents, starts the program once on each node. The program then starts
the ranks of its node. The ranks have one rendezvous: when a rank is lost, all ranks end, and the
whole attempt is repeated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from tarmac import runs
from tarmac.errors import RequestError
from tarmac.machine import find_devices

# Exit code of a rank that can report nothing but the loss of other ranks.
LOST_PEERS = os.EX_TEMPFAIL

# Exit code of a rank that has reported a hung rank, for which its main thread would wait for ever.
FOUND_HUNG = os.EX_UNAVAILABLE

_VARIABLES = ("TARMAC_NODES", "TARMAC_NODE_RANK", "MASTER_ADDR", "MASTER_PORT")

# After the loss of a rank, the others exit by themselves with a message, or wait on a GPU for ever.
_AFTERLIFE_S = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """One of several nodes of a training.

    Attributes:
        rank: Rank of this node, from 0.
        count: Number of nodes of the training.
        environment: Environment variables of the ranks, with the address of the rendezvous.
    """

    rank: int
    count: int
    environment: Mapping[str, str]

    def variables_of(self, local_rank: int, num_local: int) -> dict[str, str]:
        """Return the environment of a rank, in torchrun's names; nodes have equally many ranks."""
        return {
            **self.environment,
            "RANK": str(self.rank * num_local + local_rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(self.count * num_local),
            "LOCAL_WORLD_SIZE": str(num_local),
        }


def find_node(environment: Mapping[str, str]) -> Node | None:
    """Read the node from the agent's variables; None for a single node or inside a rank.

    Args:
        environment: Environment variables that an agent has set, usually ``os.environ``.

    Raises:
        RequestError: A variable is missing or is not a number.
    """
    if environment.get("TARMAC_NODES", "1") == "1" or "RANK" in environment:
        return None
    missing = [name for name in _VARIABLES if not environment.get(name)]
    numbers = [environment.get(name, "") for name in _VARIABLES[:2]]
    if missing or not all(number.isdecimal() for number in numbers):
        text = ", ".join(f"{name}={environment.get(name, '')}" for name in _VARIABLES)
        raise RequestError(
            f"{text}: expected numbers, and where the first node is",
            hint="Tarmac's agents set all of them. To train on this machine alone, unset them.",
        )
    count, rank = map(int, numbers)
    return Node(rank=rank, count=count, environment=environment)


def start_ranks(
    node: Node,
    command: Sequence[str],
    *,
    devices: str = "auto",
    resumed: str | None = None,
    output: Path | None = None,
) -> int:
    """Start this node's ranks of a training on several, wait for them, and return the exit code.

    Args:
        node: This node, with its rank and the number of nodes.
        command: Command line of each rank. Environment variables tell the ranks of each other.
        devices: Devices to use, as for `tarmac.train`; one rank for each.
        resumed: Run to resume, with as many ranks as it began with. Default: none.
        output: Directory of the runs. Default: `runs.default_output`.

    Raises:
        RequestError: The devices or the run do not exist, or the run's ranks cannot be divided.
    """
    if resumed is None:
        return _run(node, len(find_devices(devices)), command)
    run = runs.resolve(resumed, output)
    world_size = run.record.parallel.world_size if run.record.parallel else 1
    num_local, rest = divmod(world_size, node.count)
    if rest:
        raise RequestError(
            f"run {run.name} was started by {world_size} processes, which cannot be divided among "
            f"{node.count} nodes"
        )
    return _run(node, num_local, command)


def _run(node: Node, num_local: int, command: Sequence[str]) -> int:
    """Run a rank for each device of this node until all have ended; return the exit code.

    SIGTERM and SIGINT are passed on to all ranks. When a rank fails, the others have
    `_AFTERLIFE_S` seconds to end before they are killed.

    Args:
        node: This node, with its rank and the number of nodes.
        num_local: Number of ranks to start on this node.
        command: Command line of each rank. Environment variables give each rank its number.
    """
    ranks = {
        local: subprocess.Popen(command, env=node.variables_of(local, num_local))
        for local in range(num_local)
    }
    with _passing_signals_on(ranks.values()) as received:
        codes = _wait_for(ranks, received)
    # Of several failed ranks, one that only lost the others explains the least.
    failed = sorted(
        (local for local, code in codes.items() if code), key=lambda r: codes[r] == LOST_PEERS
    )
    if not failed:
        return 0
    first = failed[0]
    code = codes[first]
    if code > 0:
        return code
    rank = node.rank * num_local + first
    sys.stderr.write(f"rank {rank} was killed by {signal.Signals(-code).name}\n")
    sys.stderr.flush()
    return 128 - code


def _wait_for(
    ranks: Mapping[int, subprocess.Popen[bytes]], received: Collection[int]
) -> dict[int, int]:
    """Return the exit codes in the order of the exits, without those of ranks killed here."""
    codes: dict[int, int] = {}
    opened = {os.pidfd_open(process.pid): local for local, process in ranks.items()}
    poll = select.poll()
    for descriptor in opened:
        poll.register(descriptor, select.POLLIN)
    end: float | None = None
    while opened:
        left_ms = None if end is None else max(0.0, 1000 * (end - time.monotonic()))
        ready = poll.poll(left_ms)
        if not ready:
            for local in opened.values():
                ranks[local].kill()
                ranks[local].wait()
            break
        for descriptor, _ in ready:
            local = opened.pop(descriptor)
            poll.unregister(descriptor)
            os.close(descriptor)
            codes[local] = ranks[local].wait()
            # After a signal, ranks save their state before they exit; the sender waits for that.
            if codes[local] and end is None and not received:
                end = time.monotonic() + _AFTERLIFE_S
    for descriptor in opened:
        os.close(descriptor)
    return codes


@contextlib.contextmanager
def _passing_signals_on(
    processes: Collection[subprocess.Popen[bytes]],
) -> Iterator[Collection[int]]:
    received: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        for process in processes:
            process.send_signal(number)

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

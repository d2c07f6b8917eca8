"""This machine's part of a training on several: a rank for each of its devices, one beginning.

It needs no PyTorch: importing that takes as long as the ranks, which do it again, take to begin.

Whoever starts a program once on each of several nodes, as Tarmac's agents do, leaves it to that
program to start its ranks there. They meet once: where one is lost, all end, and the whole attempt
is made again.
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
from typing import TYPE_CHECKING

from tarmac import runs
from tarmac.errors import RequestError
from tarmac.machine import find_devices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

# The exit code of a rank that has nothing to say but that others are gone.
LOST_PEERS = os.EX_TEMPFAIL

# That of one that has found and named a rank that hangs, where nobody but it can end it.
FOUND_HUNG = os.EX_UNAVAILABLE

_VARIABLES = ("TARMAC_NODES", "TARMAC_NODE_RANK", "MASTER_ADDR", "MASTER_PORT")

# Ranks that have lost one end by themselves, with words, or wait for it on a GPU for ever.
_AFTERLIFE_S = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """Which of several nodes this one is.

    Attributes:
        rank: Rank of this node, from 0.
        count: How many there are.
        environment: What the ranks start from; says where they meet.
    """

    rank: int
    count: int
    environment: Mapping[str, str]

    def variables_of(self, local_rank: int, num_local: int) -> dict[str, str]:
        """Return the environment of a rank, in torchrun's words; each node has as many."""
        return {
            **self.environment,
            "RANK": str(self.rank * num_local + local_rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(self.count * num_local),
            "LOCAL_WORLD_SIZE": str(num_local),
        }


def find_node(environment: Mapping[str, str]) -> Node | None:
    """Read what an agent has set; None where this is the only node, or a rank already.

    Args:
        environment: Environment variables that an agent has set, usually ``os.environ``.

    Raises:
        RequestError: Some of it is missing, or is no number.
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
        command: Command line of each rank, which finds the others by its environment.
        devices: As for `tarmac.train`; one rank for each.
        resumed: The run that is gone on with, by as many ranks as began it.
        output: Where runs lie; by default `runs.default_output`.

    Raises:
        RequestError: There are no such devices, or no such run, or its ranks cannot be divided.
    """
    if resumed is None:
        return _run(node, len(find_devices(devices)), command)
    run = runs.resolve(resumed, output)
    world_size = run.record.parallel.world_size if run.record.parallel else 1
    num_local, rest = divmod(world_size, node.count)
    if rest:
        raise RequestError(
            f"run {run.name} was begun by {world_size} processes, which cannot be divided among "
            f"{node.count} nodes"
        )
    return _run(node, num_local, command)


def _run(node: Node, num_local: int, command: Sequence[str]) -> int:
    """Run a rank for each device of this node to their ends; return the exit code.

    SIGTERM and SIGINT are passed on to all. Where one fails, the others are given a moment to
    notice, and are killed.

    Args:
        node: This node, with its rank and the number of nodes.
        num_local: Number of ranks to start on this node.
        command: Command line of each rank; environment variables tell a rank its number.
    """
    ranks = {
        local: subprocess.Popen(command, env=node.variables_of(local, num_local))
        for local in range(num_local)
    }
    with _passing_signals_on(ranks.values()) as received:
        codes = _wait_for(ranks, received)
    # Of several that failed, one that only missed the others says the least.
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
    """Return the exit codes, in the order in which they came; those of who was killed left out."""
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
            # Who was asked to end saves the state before, for which whoever asked has patience.
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

"""A rank that follows rank 0's commands."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence

from tarmac.checks.inventory import read_inventory
from tarmac.checks.ranked import Rank
from tarmac.checks.ranks.lines import connect
from tarmac.checks.ranks.place import Place, host_name
from tarmac.checks.ranks.worker import RankWorker
from tarmac.errors import TarmacError


def follow(
    place: Place,
    *,
    command: Sequence[str],
    environment: Mapping[str, str],
    limit_s: float,
) -> int:
    """Connect to rank 0, follow its commands, and return the common exit code of all ranks.

    Args:
        place: Place of this process among the ranks.
        command: Command of the interpreter that computes.
        environment: All environment variables of this process; the worker gets them too.
        limit_s: Seconds to look for rank 0.

    Raises:
        TarmacError: Rank 0 cannot be reached, or is gone before it has sent the exit code.
    """
    inventory = read_inventory(environment=environment)
    rank = Rank(
        rank=place.rank,
        host=host_name(environment),
        driver=inventory.driver.version,
        modules=inventory.driver.modules,
        network=inventory.network,
        environment=inventory.environment,
    )
    line = connect(place, limit_s)
    worker: RankWorker | None = None
    try:
        line.send(rank=rank.model_dump(mode="json"))
        while (request := line.receive()) is not None:
            match request.pop("do", None):
                case "clock":
                    line.send(clock=time.time())
                case "port":
                    line.send(port=_free_port())
                case "start":
                    if worker is not None:
                        worker.close()
                    worker = RankWorker(command, environment, place.local_rank)
                    line.send(**worker.hear(request["limit_s"]))
                case "add" if worker is not None:
                    worker.tell(**request)
                    line.send(**worker.hear(request["limit_s"]))
                case "end":
                    return int(request["code"])
    finally:
        if worker is not None:
            worker.close()
        line.close()
    raise TarmacError(
        f"rank {place.rank} has lost rank 0 at {place.host}",
        hint="Read the output of rank 0; if it was killed, read the kernel's log of its host.",
    )


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("", 0))
        return int(taken.getsockname()[1])

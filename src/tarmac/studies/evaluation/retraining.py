"""Train a network on all data in a separate process, and score it on the test set."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import Any

from tarmac.errors import TarmacError
from tarmac.processes import LOOK_EVERY_S, Worker


def train_whole(
    worker: Worker,
    job: dict[str, Any],
    on_epoch: Callable[[dict[str, float]], None],
    halted: Callable[[], bool],
) -> tuple[dict[str, float], str] | None:
    """Train a network on all data and score it on the test set.

    Args:
        worker: Process that trains the network.
        job: Message for the worker, as for a candidate but without ``validation_size``.
        on_epoch: Called with each epoch's metrics.
        halted: Returns whether to stop.

    Returns:
        The run's metrics and directory; None after a stop.

    Raises:
        TarmacError: The training failed.
    """
    worker.send(**job)
    with selectors.DefaultSelector() as selector:
        selector.register(worker.output, selectors.EVENT_READ)
        while not halted():
            if not selector.select(LOOK_EVERY_S):
                continue
            messages = worker.receive()
            if messages is None:
                raise TarmacError(f"the winner could not be trained: {worker.why_ended()}")
            for message in messages:
                if "epoch" in message:
                    on_epoch(message["metrics"])
                elif "failed" in message:
                    raise TarmacError(f"the winner could not be trained: {message['failed']}")
                elif "interrupted" in message:
                    return None
                else:
                    return message["done"], message["run"]
    return None

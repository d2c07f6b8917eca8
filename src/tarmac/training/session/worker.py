"""One rank of a `ddp` training, started by the launcher: ``python -m ... RUN LINK``.

The run's directory contains all that it needs. Its reports go to the launcher's socket.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tarmac.errors import PeerFailed, RequestError, TarmacError
from tarmac.ranks import LOST_PEERS
from tarmac.runs import Run
from tarmac.training.engine.scoring import Score
from tarmac.training.plan import Plan
from tarmac.training.processes.link import Link
from tarmac.training.processes.rendezvous import find_rendezvous
from tarmac.training.session.rank import train_as_worker
from tarmac.training.session.reporter import Silent
from tarmac.training.session.stop_request import StopRequest

# Seconds between progress reports. Each is a message, and a few a second are enough to watch.
_LOOK_EVERY_S = 0.2

# Seconds for which a rank without peers waits for the launcher to end it. The launcher polls ten
# times a second, and should first find the rank that failed.
_PATIENCE_S = 2.0


class _Remote(Silent):
    """A reporter that sends progress to the launcher."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._next_look = 0.0

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:  # noqa: ARG002
        self._link.send("started", num_parameters=num_parameters)

    def stepped(self, epoch: int, step: int, score: Callable[[], Score]) -> None:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_EVERY_S
            so_far = score()
            self._link.send(
                "stepped",
                epoch=epoch,
                step=step,
                loss=so_far.loss,
                metrics=dict(so_far.metrics),
            )

    def epoch_done(self, row: Mapping[str, float]) -> None:
        self._link.send("epoch_done", row=dict(row))


def main() -> NoReturn:
    """Train as one rank, and exit: 0 done or interrupted, 1 failed, `LOST_PEERS`."""
    path, address = Path(sys.argv[1]), sys.argv[2]
    rendezvous = find_rendezvous(os.environ, os.getppid())
    assert rendezvous is not None, "the launcher sets the variables"

    def hang(message: str, hung: Sequence[int], reports: bool) -> None:  # noqa: ARG001 - one is heard
        link.fail("hang", message, hung=hung)
        os._exit(1)

    exit_code = 1
    with StopRequest() as stop:
        # Connect within the context, as the launcher may send a stop signal after that.
        link = Link(address, rendezvous.rank)
        reporter = _Remote(link) if rendezvous.rank == 0 else Silent()
        try:
            outcome = train_as_worker(path, rendezvous, reporter, hang, stop)
            if rendezvous.rank == 0:
                replicas = [replica.model_dump(mode="json") for replica in outcome.replicas]
                link.send(
                    "ended",
                    metrics=outcome.metrics,
                    stopped_early=outcome.stopped_early,
                    replicas=replicas,
                )
            link.done()
            exit_code = 0
        except PeerFailed:
            traceback.print_exc()
            _await(stop, _PATIENCE_S)
            exit_code = LOST_PEERS
        except RequestError as error:
            link.fail("request", error.message, error.hint)
        except TarmacError as error:
            link.fail("failed", error.message, error.hint)
        except Exception as error:
            traceback.print_exc()
            link.fail("exception", f"{type(error).__name__}: {error}")
    sys.stdout.flush()
    sys.stderr.flush()
    # os._exit, as threads of a broken process group may never end. A thread of a whole group that
    # works while Python shuts down aborts the process (pytorch/pytorch issue 190489).
    os._exit(exit_code)


def _await(stop: StopRequest, limit_s: float) -> None:
    """Wait until the launcher requests a stop, or until the limit."""
    end = time.monotonic() + limit_s
    while not stop and time.monotonic() < end:
        time.sleep(_LOOK_EVERY_S)


if __name__ == "__main__":
    main()

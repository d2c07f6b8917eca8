"""The process that prints for all processes that a launcher started with the same line."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

# Seconds for the lead, which has to parse the same line on a machine that may be busy.
_PATIENCE_S = 10.0
# Seconds for a failed process, which only has to print its message.
_PRINTED_WITHIN_S = 3.0


def is_rank_zero() -> bool:
    """Return whether this process prints: it is rank 0, or the only process."""
    return "WORLD_SIZE" not in os.environ or os.environ.get("RANK", "0") == "0"


def code_of_peer() -> int:
    """Return the exit code of a process that cannot go on because another has failed.

    The code lets Tarmac's agents on several nodes distinguish both processes.
    """
    return os.EX_TEMPFAIL if "TARMAC_NODES" in os.environ else 1


def leave(exit_code: int, *, is_own_process: bool) -> NoReturn:
    """Exit; at once if this is the command's own process, and it has trained with others.

    When Python finalizes, a running thread of a process group ends the process by SIGABRT
    (pytorch/pytorch issue 190489), after a training that has succeeded.
    """
    if is_own_process and "WORLD_SIZE" in os.environ and "torch.distributed" in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
    sys.exit(exit_code)


def wait_for_rank_zero() -> None:
    """Give the lead time to print its message.

    A launcher such as torchrun ends all processes when the first one ends, also a lead that has not
    printed yet.
    """
    time.sleep(_PATIENCE_S)


def wait_for_failed() -> None:
    """Give a failed process time to print its message, if torchrun started both.

    torchrun ends all processes when the first one ends, which may have nothing to print.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        time.sleep(_PRINTED_WITHIN_S)

"""Which of the processes that a launcher has started with the same line speaks for all."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

# The lead has the same line to read, on a machine that may be busy.
_PATIENCE_S = 10.0
# One that has failed has only its message left to print.
_PRINTED_WITHIN_S = 3.0


def speaks_for_all() -> bool:
    """Whether this process prints: it is rank 0, or the only one."""
    return "WORLD_SIZE" not in os.environ or os.environ.get("RANK", "0") == "0"


def code_of_peer() -> int:
    """Return what a process exits with that cannot go on because another has failed.

    Tarmac's agents on several nodes tell it from the one that has failed by this.
    """
    return os.EX_TEMPFAIL if "TARMAC_NODES" in os.environ else 1


def leave(exit_code: int, *, is_own_process: bool) -> NoReturn:
    """Exit; at once, if this process is the command's own, and one that has trained with others.

    A thread of a process group that Python finds at work when it takes itself down ends the process
    by SIGABRT (pytorch/pytorch issue 190489), after a training that is done.
    """
    if is_own_process and "WORLD_SIZE" in os.environ and "torch.distributed" in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
    sys.exit(exit_code)


def wait_for_lead() -> None:
    """Give the process that speaks time to do so.

    A launcher such as torchrun ends all processes when the first one ends, and with them one that
    has not spoken yet.
    """
    time.sleep(_PATIENCE_S)


def wait_for_failed() -> None:
    """Give the process that has failed time to say so, where torchrun started both.

    It ends all others when the first one ends, which may be one that has nothing to say.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        time.sleep(_PRINTED_WITHIN_S)

"""Stages inputs and outputs in a process: ``python -m tarmac.executors.stager FD``.

Downloads, installers and container engines take long and cannot be interrupted within a process,
so they run in a process that can be ended. Requests and answers go over the socket of descriptor
FD. The process ends when the other end is closed.
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

from tarmac.executors.staging import perform


def main() -> None:
    """Answer requests until the other end is closed, or until SIGTERM."""

    def end(*_: object) -> None:
        # An exception unwinds the stack, which removes logins and partial files.
        raise SystemExit

    signal.signal(signal.SIGTERM, end)
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    try:
        with Connection(descriptor) as requests:
            while True:
                requests.send(perform(requests.recv()))
    except (EOFError, OSError, SystemExit):
        # Exit at once: a normal exit would wait for threads of libraries.
        os._exit(0)


if __name__ == "__main__":
    main()

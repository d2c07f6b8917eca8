"""Brings what tasks need and keeps what they made: ``python -m tarmac.jobs.executors.stager FD``.

Downloads, installers and container engines take long and cannot be interrupted within a process, so
they are in one that can be ended. Requests and answers go over a socket, the descriptor FD; the
process ends with its other end.
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

from tarmac.jobs.executors.staging import perform


def main() -> None:
    """Answer requests until the other end is closed, or until asked to end."""

    def end(*_: object) -> None:
        # Unwinds, so that logins and half of a file are taken away.
        raise SystemExit

    signal.signal(signal.SIGTERM, end)
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    try:
        with Connection(descriptor) as requests:
            while True:
                requests.send(perform(requests.recv()))
    except (EOFError, OSError, SystemExit):
        # At once: threads of libraries would be waited for.
        os._exit(0)


if __name__ == "__main__":
    main()

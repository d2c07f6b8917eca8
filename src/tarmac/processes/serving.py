"""The process side of a `Worker`: jobs on standard input, messages on standard output."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, NoReturn


class Conversation:
    """A worker's exchange of messages with its parent process, a line of JSON each.

    Args:
        output: Text stream that messages are written to, a line of JSON each.
        received: Queue of the messages from the parent process.
    """

    def __init__(self, output: IO[str], received: queue.Queue[Any]) -> None:
        self._output = output
        self._received = received

    def send(self, **message: Any) -> None:
        """Send a message to the parent process."""
        self._output.write(json.dumps(message) + "\n")
        self._output.flush()

    def receive(self) -> Any:
        """Wait for the next message and return it."""
        return self._received.get()


def serve(work: Callable[[dict[str, Any], Conversation], None]) -> NoReturn:
    """Run the jobs that come in, until the input ends.

    The process exits as soon as its input ends, even in the middle of a job. So no worker outlives
    a parent process that was killed.

    Args:
        work: Runs the job of a message, and sends the result.
    """
    # Output of a job's own code must not mix with the messages.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Schedulers send SIGTERM to all processes of a job. The parent process decides when its workers
    # end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    received: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(received,), daemon=True).start()
    conversation = Conversation(output, received)
    while True:
        work(conversation.receive(), conversation)


def _listen(received: queue.Queue[Any]) -> None:
    for line in sys.stdin:
        received.put(json.loads(line))
    os._exit(0)

"""What processes of a search have in common: jobs on standard input, lines on standard output."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from typing import IO, TYPE_CHECKING, Any, NoReturn

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Conversation", "serve"]


class Conversation:
    """Talks with the search that started this process, a line of JSON at a time.

    Args:
        to_search: Takes lines.
        heard: What the search says.
    """

    def __init__(self, to_search: IO[str], heard: queue.Queue[Any]) -> None:
        self._to_search = to_search
        self._heard = heard

    def say(self, **message: Any) -> None:
        """Send a line."""
        self._to_search.write(json.dumps(message) + "\n")
        self._to_search.flush()

    def hear(self) -> Any:
        """Wait for what the search says next."""
        return self._heard.get()


def serve(work: Callable[[dict[str, Any], Conversation], None]) -> NoReturn:
    """Do what comes in, until the input ends.

    The process ends with its input, in the middle of a training too: a search that was killed
    leaves nothing behind. ``sys.argv[1]`` is the number of threads, 0 for PyTorch's default.

    Args:
        work: Does a job and says how it went.
    """
    # What a user's model prints must not get between the lines.
    to_search = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Schedulers send SIGTERM to all processes of a job. What it means for a network is the search's
    # to say; `tarmac.training` still takes it as a request to stop.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    num_threads = int(sys.argv[1])
    if num_threads:
        torch.set_num_threads(num_threads)
    heard: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(heard,), daemon=True).start()
    conversation = Conversation(to_search, heard)
    while True:
        work(conversation.hear(), conversation)


def _listen(heard: queue.Queue[Any]) -> None:
    for line in sys.stdin:
        heard.put(json.loads(line))
    os._exit(0)

"""Reads pods' logs while they run, one thread each, so that no output is lost with a pod."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tarmac.errors import TarmacError
from tarmac.executors.kubernetes.manifests import CONTAINER
from tarmac.executors.kubernetes.mirror import Heard, mirror_log
from tarmac.kubernetes import NoAnswer, Refused

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster

# Most logs at once, as each is a connection to the API server. Others are read after their end.
_MAX_AT_ONCE = 64

# Tries before the log of an ended pod counts as gone; each pause is twice the one before. The
# container of a pod that has not ended may only just be starting.
_MAX_TRIES = 5
_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0


class Followed(NamedTuple):
    """A pod's log and its attempt.

    Attributes:
        pod: Name of the pod whose log is read.
        directory: The task's directory in the run, which gets ``stdout`` and ``stderr``.
        number: Number of the attempt, from 1.
        rank: Rank of the pod's node, from 0, where several nodes run the attempt; else 0.
    """

    pod: str
    directory: Path
    number: int
    rank: int = 0


class Followers:
    """The threads that read the logs of a run's pods.

    Args:
        cluster: Cluster where the pods are.
        heard: Function to call, from any thread, when a log has ended.
    """

    def __init__(self, cluster: Cluster, heard: Callable[[], None]) -> None:
        self._cluster = cluster
        self._heard = heard
        self._lock = threading.Lock()
        self._at_work: set[str] = set()
        self._failures: dict[str, int] = {}
        self._results: dict[str, Heard] = {}
        self._whose: dict[str, tuple[Path, int]] = {}

    def follow(self, followed: Followed, *, is_over: bool) -> None:
        """Read a pod's log to its end, unless that is done or in progress.

        Args:
            followed: Pod and attempt whose log to read.
            is_over: Whether the pod has ended. Ended pods take precedence.
        """
        with self._lock:
            if followed.pod in self._at_work or followed.pod in self._results:
                return
            if len(self._at_work) >= _MAX_AT_ONCE * (2 if is_over else 1):
                return
            self._at_work.add(followed.pod)
            self._whose[followed.pod] = followed.directory, followed.number
        threading.Thread(
            target=self._read, args=(followed, is_over), name=f"log {followed.pod}", daemon=True
        ).start()

    def is_reading(self, pod: str) -> bool:
        """Return whether a pod's log is being read, so that more output may follow."""
        with self._lock:
            return pod in self._at_work

    def is_reading_of(self, directory: Path, number: int) -> bool:
        """Return whether a log of an attempt's pods is being read."""
        with self._lock:
            return any(self._whose[pod] == (directory, number) for pod in self._at_work)

    def result(self, pod: str) -> Heard | None:
        """Return the content of a pod's log; None before it is read to its end."""
        with self._lock:
            return self._results.get(pod)

    def of(self, directory: Path, number: int) -> list[Heard]:
        """Return the contents of an attempt's logs that are read to their end."""
        with self._lock:
            return [
                heard
                for pod, heard in self._results.items()
                if self._whose[pod] == (directory, number)
            ]

    def forget(self, directory: Path, number: int) -> None:
        """Forget the pods of an attempt that is over."""
        with self._lock:
            of_it = [pod for pod, whose in self._whose.items() if whose == (directory, number)]
            for pod in of_it:
                self._results.pop(pod, None)
                self._failures.pop(pod, None)

    def _read(self, followed: Followed, is_over: bool) -> None:
        heard = self._try(followed, is_over=is_over)
        failures = 0 if is_over else self._failures.get(followed.pod, 0)
        while heard is None:
            time.sleep(min(_PAUSE_S * 2**failures, _LONGEST_PAUSE_S))
            failures += 1
            if not is_over:
                # The caller of `follow` knows whether the pod has ended by now.
                break
            is_last = failures >= _MAX_TRIES
            heard = Heard() if is_last else self._try(followed, is_over=is_over)
        with self._lock:
            self._at_work.discard(followed.pod)
            if heard is not None:
                self._results[followed.pod] = heard
            else:
                self._failures[followed.pod] = failures
        self._heard()

    def _try(self, followed: Followed, *, is_over: bool) -> Heard | None:
        """Read a log to its end; None where it is unavailable or broke off."""
        try:
            log = self._cluster.log(followed.pod, CONTAINER, follow=True)
            if isinstance(log, (Refused, NoAnswer)):
                return None
            heard = mirror_log(*followed, log=log)
        except (ConnectionError, TarmacError):
            return None
        # The first node's log has the record. Without a record, the connection ended too early.
        is_whole = heard.record is not None or followed.rank or is_over
        return heard if is_whole else None

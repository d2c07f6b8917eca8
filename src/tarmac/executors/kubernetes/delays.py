"""Tracks how long a problem has held up each pod."""

from __future__ import annotations

import time

from tarmac.executors.kubernetes.pods import SeenPod


class Delays:
    """The problem of each pod and its start, by this machine's clock."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}

    def is_overdue(self, pod: SeenPod) -> bool:
        """Return whether a pod's problem has lasted for as long as it may."""
        if pod.limit_s is None:
            self._since.pop(pod.name, None)
            return False
        matter, since = self._since.get(pod.name, ("", 0.0))
        if matter != pod.matter:
            since = time.monotonic()
            self._since[pod.name] = pod.matter, since
        return time.monotonic() - since >= pod.limit_s

"""The throughput of this process's replicas."""

from __future__ import annotations


class Throughput:
    """A counter of time and samples since the engine's creation.

    Args:
        num_replicas: Number of replicas in this process.

    Attributes:
        waiting_s: Seconds in which this process has waited for other ranks.
    """

    def __init__(self, num_replicas: int) -> None:
        self.waiting_s = 0.0
        self._seconds = 0.0
        self._num_samples = [0] * num_replicas

    def add_time(self, seconds: float, waiting_s: float) -> None:
        """Add time, and the part of it that this process waited for other ranks."""
        self._seconds += seconds
        self.waiting_s += waiting_s

    def add_samples(self, replica: int, num_samples: int) -> None:
        """Add samples that a replica, by its index in this process, was trained on."""
        self._num_samples[replica] += num_samples

    def samples_per_s(self, replica: int) -> float:
        """Return a replica's samples per second of computing; 0 if it had no samples."""
        num_samples = self._num_samples[replica]
        return num_samples / (self._seconds - self.waiting_s) if num_samples else 0.0

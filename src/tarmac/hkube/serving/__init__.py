"""Serves a workload of Tarmac's as an HKube algorithm.

`read_request` says what a task asks, `ServedWorkload` trains it, and `Loop` does what the worker
says; `Connection` keeps the websocket up.
"""

from tarmac.hkube.serving.verb import serve

__all__ = ["serve"]

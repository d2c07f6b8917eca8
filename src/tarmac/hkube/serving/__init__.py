"""Serving of a Tarmac workload as an HKube algorithm.

`read_request` reads a task's input and `ServedWorkload` trains it. `Loop` handles the worker's
messages, and `Connection` keeps the websocket up.
"""

from tarmac.hkube.serving.verb import serve

__all__ = ["serve"]

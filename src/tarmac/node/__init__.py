"""The agent on a node: takes one attempt of a task from a file to its end, and writes down how.

Needs Python 3.9 and its standard library alone, for it travels with a run to nodes that have no
more. It is packed into one file, `agent.pyz`, together with `tarmac.processes`.
"""

from tarmac.node.packing import agent_file, place_agent, write_agent
from tarmac.node.records import (
    AttemptRecord,
    Cause,
    Chunk,
    Element,
    attempt_file,
    fence_file,
    read_attempt,
)

__all__ = [
    "AttemptRecord",
    "Cause",
    "Chunk",
    "Element",
    "agent_file",
    "attempt_file",
    "fence_file",
    "place_agent",
    "read_attempt",
    "write_agent",
]

"""The agent on a node: reads one attempt of a task from a file, runs it and writes its record.

The agent needs only Python 3.9 and its standard library, because a run takes it to nodes that have
nothing else. It is packed into one file, `agent.pyz`, together with `tarmac.processes`.
"""

from tarmac.node.gpu_watch import GpuWatch
from tarmac.node.packing import agent_file, place_agent, small_agent, write_agent
from tarmac.node.plain import plain_units
from tarmac.node.pod import RECORD, STREAMS, packed_elements
from tarmac.node.records import (
    AttemptRecord,
    AttemptSpec,
    Cause,
    Chunk,
    attempt_file,
    fence_file,
    log_file,
    parse_attempt,
    read_attempt,
)

__all__ = [
    "RECORD",
    "STREAMS",
    "AttemptRecord",
    "AttemptSpec",
    "Cause",
    "Chunk",
    "GpuWatch",
    "agent_file",
    "attempt_file",
    "fence_file",
    "log_file",
    "packed_elements",
    "parse_attempt",
    "place_agent",
    "plain_units",
    "read_attempt",
    "small_agent",
    "write_agent",
]

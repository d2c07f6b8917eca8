"""Processes that Tarmac starts: with all that they start, watched, and ended as a whole."""

from tarmac.processes.cgroup import MemoryGroup, make_memory_group, parent_of_groups
from tarmac.processes.identity import ProcessIdentity, identify
from tarmac.processes.tree import MARK, Process, guarded, start, watch

__all__ = [
    "MARK",
    "MemoryGroup",
    "Process",
    "ProcessIdentity",
    "guarded",
    "identify",
    "make_memory_group",
    "parent_of_groups",
    "start",
    "watch",
]

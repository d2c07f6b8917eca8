"""Processes that Tarmac starts: with all that they start, watched, and ended as a whole.

`spawn` starts every one of them and `kill_tree` ends one with all that it started. `start` adds a
task's limits, `guarded` an end should this process be killed, and `Worker` a conversation in lines
of JSON, of which `serve` is the other end.
"""

from tarmac.processes.cgroup import MemoryGroup, make_memory_group, parent_of_groups
from tarmac.processes.children import Child, kill_tree, spawn
from tarmac.processes.identity import ProcessIdentity, identify
from tarmac.processes.output import OutputTail
from tarmac.processes.serving import Conversation, serve
from tarmac.processes.tree import MARK, Process, guarded, start, watch
from tarmac.processes.workers import LOOK_EVERY_S, Worker

__all__ = [
    "LOOK_EVERY_S",
    "MARK",
    "Child",
    "Conversation",
    "MemoryGroup",
    "OutputTail",
    "Process",
    "ProcessIdentity",
    "Worker",
    "guarded",
    "identify",
    "kill_tree",
    "make_memory_group",
    "parent_of_groups",
    "serve",
    "spawn",
    "start",
    "watch",
]

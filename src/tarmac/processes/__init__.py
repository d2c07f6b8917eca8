"""Processes that Tarmac starts: with all that they start, watched, and ended as a whole.

`spawn` starts every one of them and `kill_tree` ends one with all that it started. `start` adds a
task's limits, `guarded` an end should this process be killed, and `Worker` a conversation in lines
of JSON, of which `serve` is the other end. `python_command` words the start of each that is Python.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.processes.cgroup import MemoryGroup, make_memory_group, parent_of_groups
    from tarmac.processes.children import Child, kill_tree, spawn
    from tarmac.processes.identity import ProcessIdentity, identify
    from tarmac.processes.output import OutputTail, last_line
    from tarmac.processes.python import python_command
    from tarmac.processes.serving import Conversation, serve
    from tarmac.processes.tree import MARK, Process, guarded, guarded_by_fork, start, watch
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
    "guarded_by_fork",
    "identify",
    "kill_tree",
    "last_line",
    "make_memory_group",
    "parent_of_groups",
    "python_command",
    "serve",
    "spawn",
    "start",
    "watch",
]

# Where a name is at home.
_MODULES = {
    "LOOK_EVERY_S": "workers",
    "MARK": "tree",
    "Child": "children",
    "Conversation": "serving",
    "MemoryGroup": "cgroup",
    "OutputTail": "output",
    "Process": "tree",
    "ProcessIdentity": "identity",
    "Worker": "workers",
    "guarded": "tree",
    "guarded_by_fork": "tree",
    "identify": "identity",
    "kill_tree": "children",
    "last_line": "output",
    "make_memory_group": "cgroup",
    "parent_of_groups": "cgroup",
    "python_command": "python",
    "serve": "serving",
    "spawn": "children",
    "start": "tree",
    "watch": "tree",
}


def __getattr__(name: str) -> object:
    """Import a module when a name of it is first used: an agent begins for each of its tasks."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

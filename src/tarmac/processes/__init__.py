"""The processes that Tarmac starts: supervised, and ended together with their descendants.

`spawn` starts a process, and `kill_tree` ends it with all its descendants. `start` adds a task's
limits. `guarded` ends the processes if this process is killed. `Worker` exchanges messages in lines
of JSON with a process that runs `serve`. `python_command` returns the command line of a Python
process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.processes.cgroup import MemoryGroup as MemoryGroup
    from tarmac.processes.cgroup import make_memory_group as make_memory_group
    from tarmac.processes.cgroup import parent_of_groups as parent_of_groups
    from tarmac.processes.children import Child as Child
    from tarmac.processes.children import kill_tree as kill_tree
    from tarmac.processes.children import spawn as spawn
    from tarmac.processes.identity import ProcessIdentity as ProcessIdentity
    from tarmac.processes.identity import identify as identify
    from tarmac.processes.output import OutputTail as OutputTail
    from tarmac.processes.output import last_line as last_line
    from tarmac.processes.python import python_command as python_command
    from tarmac.processes.serving import Conversation as Conversation
    from tarmac.processes.serving import serve as serve
    from tarmac.processes.tree import MARK as MARK
    from tarmac.processes.tree import Process as Process
    from tarmac.processes.tree import guarded as guarded
    from tarmac.processes.tree import guarded_by_fork as guarded_by_fork
    from tarmac.processes.tree import start as start
    from tarmac.processes.tree import watch as watch
    from tarmac.processes.workers import LOOK_EVERY_S as LOOK_EVERY_S
    from tarmac.processes.workers import Worker as Worker
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)

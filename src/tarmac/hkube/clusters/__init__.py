"""Pipeline tasks on clusters: submitted to an engine one by one, and hosted on its nodes.

The runner's half (`ClusterHost`) submits each task to an executor of `tarmac.jobs`, so queues, lost
nodes, limits and secrets work as for any job. The node's half (`run_errand`) is a
`tarmac.hkube.hosting.Pool` for one task, so protocols, environments and containers work as on any
machine. The halves exchange two files in the task's directory, which the nodes see.
"""

from tarmac.hkube.clusters.host import ClusterHost
from tarmac.hkube.clusters.interface import EngineWatcher
from tarmac.hkube.clusters.node import run_errand
from tarmac.hkube.clusters.wrapping import refuse_on, wrap

__all__ = ["ClusterHost", "EngineWatcher", "refuse_on", "run_errand", "wrap"]

"""Pipelines' tasks on clusters: handed to an engine one by one, and hosted on its nodes.

The runner's half (`ClusterHost`) makes of each task one of an executor of `tarmac.jobs`, so that
queues, lost nodes, limits and secrets are as with any job. The node's half (`run_errand`) is a
`tarmac.hkube.hosting.Pool` for one task: protocols, environments and containers are as everywhere.
Between them are two files in the task's directory, which the nodes see.
"""

from tarmac.hkube.clusters.host import ClusterHost
from tarmac.hkube.clusters.interface import EngineWatcher
from tarmac.hkube.clusters.node import run_errand
from tarmac.hkube.clusters.wrapping import refuse_on, wrap

__all__ = ["ClusterHost", "EngineWatcher", "refuse_on", "run_errand", "wrap"]

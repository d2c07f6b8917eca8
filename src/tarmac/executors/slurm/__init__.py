"""The executor ``slurm``: tasks as elements of job arrays, in a cluster's own queue."""

from tarmac.executors.slurm.engine import SlurmEngine
from tarmac.executors.slurm.kind import SLURM, SlurmExecutor
from tarmac.executors.slurm.options import SlurmOptions

__all__ = ["SLURM", "SlurmEngine", "SlurmExecutor", "SlurmOptions"]

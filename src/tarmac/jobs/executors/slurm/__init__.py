"""The executor ``slurm``: tasks as elements of job arrays, in a cluster's own queue."""

from tarmac.jobs.executors.slurm.engine import SlurmEngine
from tarmac.jobs.executors.slurm.kind import SLURM, SlurmExecutor
from tarmac.jobs.executors.slurm.options import SlurmOptions

__all__ = ["SLURM", "SlurmEngine", "SlurmExecutor", "SlurmOptions"]

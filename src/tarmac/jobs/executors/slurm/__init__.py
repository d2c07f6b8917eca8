"""The executor ``slurm``: tasks as elements of arrays, in a cluster's own queue."""

from tarmac.jobs.executors.slurm.engine import SlurmEngine as SlurmEngine
from tarmac.jobs.executors.slurm.kind import SLURM as SLURM
from tarmac.jobs.executors.slurm.kind import SlurmExecutor as SlurmExecutor
from tarmac.jobs.executors.slurm.options import SlurmOptions as SlurmOptions

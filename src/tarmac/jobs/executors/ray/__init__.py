"""The executor ``ray``: tasks of Ray Core, whose driver is the run's own process."""

from tarmac.jobs.executors.ray.kind import RAY as RAY
from tarmac.jobs.executors.ray.kind import RayExecutor as RayExecutor
from tarmac.jobs.executors.ray.options import RayOptions as RayOptions

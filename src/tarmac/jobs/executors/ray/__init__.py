"""The executor ``ray``: tasks of Ray Core, whose driver is the run's own process."""

from tarmac.jobs.executors.ray.kind import RAY, RayExecutor
from tarmac.jobs.executors.ray.options import RayOptions

__all__ = ["RAY", "RayExecutor", "RayOptions"]

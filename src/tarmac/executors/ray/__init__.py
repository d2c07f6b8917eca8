"""The executor ``ray``: tasks of Ray Core, whose driver is the run's own process."""

from tarmac.executors.ray.kind import RAY, RayExecutor
from tarmac.executors.ray.options import RayOptions

__all__ = ["RAY", "RayExecutor", "RayOptions"]

"""A Kubernetes API of the tests' own, with controllers, and nodes that run pods as processes."""

from .cluster import Emulator
from .hollow import Outcome, succeed
from .kinds import CONFIG_MAP, EVENT, JOB, NODE, POD, QUOTA, SECRET, SERVICE

__all__ = [
    "CONFIG_MAP",
    "EVENT",
    "JOB",
    "NODE",
    "POD",
    "QUOTA",
    "SECRET",
    "SERVICE",
    "Emulator",
    "Outcome",
    "succeed",
]

"""A Slurm of two nodes on this machine, for trials and tests: `try_slurm`, `OneMachineSlurm`."""

from tarmac.testing.slurm.one_machine import NODES, OneMachineSlurm
from tarmac.testing.slurm.trial import try_slurm

__all__ = ["NODES", "OneMachineSlurm", "try_slurm"]

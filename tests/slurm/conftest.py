"""A Slurm of two nodes on this machine, for the tests of a module."""

from __future__ import annotations

import os

import pytest

from tarmac.slurm import SlurmCommands


@pytest.fixture(scope="module")
def cluster(start_slurm):
    """Return a Slurm with two equal nodes."""
    return start_slurm()


@pytest.fixture
def slurm(cluster):
    """Return the commands that ask it."""
    return SlurmCommands(os.environ | dict(cluster.variables))

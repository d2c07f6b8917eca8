"""Environments of conda's packages: how they are built, where existing ones are, what they set."""

from tarmac.environments.conda.activation import activated
from tarmac.environments.conda.existing import CondaSpec, existing_prefix

__all__ = ["CondaSpec", "activated", "existing_prefix"]

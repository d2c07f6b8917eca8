"""Environments of conda's packages: built by their content, or existing ones, and activated."""

from tarmac.environments.conda.activation import activated
from tarmac.environments.conda.existing import CondaSpec, existing_prefix

__all__ = ["CondaSpec", "activated", "existing_prefix"]

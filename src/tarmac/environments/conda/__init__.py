"""Conda environments: build new ones, find existing ones, and activate them."""

from tarmac.environments.conda.activation import activated
from tarmac.environments.conda.existing import CondaSpec, existing_prefix

__all__ = ["CondaSpec", "activated", "existing_prefix"]

"""Environments of conda's packages: how they are built, where existing ones are, what they set."""

from tarmac.environments.conda.activation import activated as activated
from tarmac.environments.conda.existing import CondaSpec as CondaSpec
from tarmac.environments.conda.existing import existing_prefix as existing_prefix

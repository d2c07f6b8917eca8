"""Nodes of the kind hyperparamsTuner: trials chosen by Optuna."""

from tarmac.hkube.tuning.trials import TrialEnd as TrialEnd
from tarmac.hkube.tuning.trials import tune as tune

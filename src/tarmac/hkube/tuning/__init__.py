"""Nodes of the kind hyperparamsTuner: trials chosen by Optuna."""

from tarmac.hkube.tuning.trials import TrialEnd, tune

__all__ = ["TrialEnd", "tune"]

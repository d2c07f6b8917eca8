"""Nodes of the kind hyperparamsTuner, whose trials Optuna chooses."""

from tarmac.hkube.tuning.trials import TrialEnd, tune

__all__ = ["TrialEnd", "tune"]

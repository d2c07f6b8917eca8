"""Many networks at once: multilayer perceptrons of equal shape train as one stacked model."""

from tarmac.search.population._evaluator import StackedEvaluator
from tarmac.search.population._grouping import Stack
from tarmac.search.population._network import can_stack

__all__ = ["Stack", "StackedEvaluator", "can_stack"]

"""What options can be, for their help and for shells.

Each is what a room takes, which a test compares: importing the rooms would make ``--help`` slow.
"""

from __future__ import annotations

__all__ = [
    "COMPILE",
    "FEEDS",
    "FRAMEWORKS",
    "METHODS",
    "OBJECTIVES",
    "PRECISIONS",
    "PRUNERS",
    "SCALES",
    "STRATEGIES",
]

FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "mxnet", "chainer", "horovod")

PRECISIONS = ("auto", "fp32", "bf16", "fp64")
STRATEGIES = ("auto", "single", "ddp", "towers")
FEEDS = ("auto", "resident", "prefetch", "direct")
COMPILE = ("auto", "on", "off")
SCALES = ("none", "linear", "sqrt")

METHODS = ("evolve", "brute", "random", "tpe", "cmaes", "nsga2")
PRUNERS = ("none", "halving", "median")
OBJECTIVES = ("val_accuracy", "val_loss", "params", "seconds", "epochs")

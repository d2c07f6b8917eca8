"""Networks of the published search, as candidates of a stack."""

from __future__ import annotations

from tarmac.studies.evaluation.interface import Candidate

OPTIMIZERS = ("rmsprop", "adam", "sgd", "adagrad", "adadelta", "adamax", "nadam")
ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")


def candidates(
    count: int, mix: str, epochs: int, dataset: str = "mnist", neurons: int = 512
) -> list[Candidate]:
    """Return networks of one shape: all with ReLU and RMSprop, or with everything in turns."""
    found = []
    for number in range(count):
        mine = number if mix == "mixed" else 0
        settings = {
            "dataset": dataset,
            "neurons": neurons,
            "layers": 2,
            "optimizer": OPTIMIZERS[mine % len(OPTIMIZERS)],
            "activation": ACTIVATIONS[mine % len(ACTIVATIONS)],
        }
        found.append(Candidate(number=number, settings=settings, seed=number, epochs=epochs))
    return found

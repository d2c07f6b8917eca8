"""Studies to search in, without networks."""

from __future__ import annotations

import pytest

from tarmac.studies.request import make_request
from tarmac.studies.space import Choices, Space
from tarmac.studies.study.writer import StudyWriter


@pytest.fixture(autouse=True, scope="module")
def _forked(forked_children) -> None:
    # Workers of searches are forks.
    pass


PUBLISHED = {
    "neurons": Choices((64, 128, 256, 512, 768, 1024)),
    "layers": Choices((1, 2, 3, 4)),
    "activation": Choices(("relu", "elu", "tanh", "sigmoid")),
    "optimizer": Choices(("rmsprop", "adam", "sgd", "adagrad", "adadelta", "adamax", "nadam")),
}


@pytest.fixture
def published() -> Space:
    """The 672 networks."""
    return Space(PUBLISHED)


@pytest.fixture
def make_study(tmp_path):
    """Return a function that makes a study of the 672 networks, or of another space."""

    def make(parameters=None, *, is_shared=False, **fields) -> StudyWriter:
        request = make_request({"workload": "mlp", "epochs": 2, **fields})
        return StudyWriter.create(
            tmp_path / "runs",
            "study",
            request,
            Space(parameters or PUBLISHED),
            {"dropout": 0.2},
            train_size=100,
            validation_size=20,
            is_shared=is_shared,
        )

    return make

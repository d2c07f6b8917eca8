"""Short trainings give the bits that are recorded of them; see `reference`."""

from __future__ import annotations

import json

import pytest
from reference import RECORD, arithmetic, measure

# Another release of PyTorch, or a processor without AVX-512 or of another make than x86-64, rounds
# otherwise: then only the losses are compared, to what a few dozen steps make of such roundings.
TOLERANCE = {"digits-mlp in bf16": 2e-2}


@pytest.mark.timeout(600)
def test_short_trainings_give_the_recorded_bits():
    record = json.loads(RECORD.read_text())
    found = measure()
    assert found.keys() == record["trainings"].keys()
    if arithmetic() == record["arithmetic"]:
        assert found == record["trainings"]
        return
    for name, expected in record["trainings"].items():
        for key in ("loss", "val_loss", "test_loss"):
            tolerance = TOLERANCE.get(name, 1e-4)
            assert found[name][key] == pytest.approx(expected[key], rel=tolerance), (name, key)

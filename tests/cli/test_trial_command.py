"""``tarmac train W --steps N``: what it says."""

from __future__ import annotations

import json

import pytest

from tarmac.cli.trial_end import trial_lines
from tarmac.runs import Run


def test_the_command_says_that_it_is_a_trial_and_how_fast_it_was(tarmac, tmp_path):
    code, out, _ = tarmac("train", "digits-mlp", "--steps", "4", "--output", str(tmp_path))
    assert code == 0
    assert "trial      4 of 1,800 steps: nothing is scored, judged or kept" in out
    assert "nothing was scored, judged or kept, and it cannot be resumed" in out
    assert "FLOP/s in products of matrices" in out
    assert "MFU unknown: the peak rate of this CPU is not known" in out
    assert "expected" not in out


def test_its_result_as_json_has_the_rates(tarmac, tmp_path):
    words = ("train", "digits-mlp", "--steps", "4", "--json", "--output", str(tmp_path))
    code, out, _ = tarmac(*words)
    result = json.loads(out)
    assert code == 0
    assert {"samples_per_s", "flops_per_s"} <= result["metrics"].keys()
    assert result["expectation"] is None


def test_verify_needs_a_whole_training(tarmac, tmp_path):
    words = ("train", "digits-mlp", "--steps", "4", "--verify", "--output", str(tmp_path))
    code, _, err = tarmac(*words)
    assert code == 2
    assert "--verify needs a whole training" in err


@pytest.mark.parametrize(
    ("name", "mfu", "said"),
    [
        (
            "NVIDIA H100 80GB HBM3",
            0.412,
            "MFU 41.2% of bf16: one H100 SXM 80 GB can do 989 TFLOP/s",
        ),
        ("NVIDIA Unheard-of", None, "MFU unknown: the peak rate of NVIDIA Unheard-of"),
    ],
)
def test_the_share_stands_beside_what_the_chip_can_do(tarmac, tmp_path, name, mfu, said):
    tarmac("train", "digits-mlp", "--steps", "1", "--output", str(tmp_path))
    (path,) = tmp_path.iterdir()
    record = Run.open(path).record
    device = {**record.device, "type": "cuda", "name": name, "memory_bytes": 80 * 2**30}
    configuration = {**record.configuration, "precision": "bf16"}
    record = record.model_copy(
        update={"device": device, "configuration": configuration, "mfu": mfu}
    )
    assert said in [*trial_lines(record)][-1]

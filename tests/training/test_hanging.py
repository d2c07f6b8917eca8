"""A training that really hangs in its first epoch is told by its samples."""

from __future__ import annotations

import json
import textwrap

import pytest

from forked import start_python
from tarmac.monitor.hangs import Rank, find_hang
from tarmac.runs import glance_training
from waiting import wait_until

pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")

HANGS_AT_STEP = 12

# Steps that take a while, and one that never ends; sampled faster than a watched one is.
HANGING = f"""
    import threading
    from torch import nn
    from tarmac.training import train
    from tarmac.training.session.sampling import Sampler
    from tarmac.workloads import SGD, Recipe, Scale, Workload

    Sampler.__init__.__kwdefaults__["interval_s"] = 0.05

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
            self.num_steps = 0

        def forward(self, images):
            if self.training:
                hangs = self.num_steps >= {HANGS_AT_STEP}
                threading.Event().wait(None if hangs else 0.05)
                self.num_steps += 1
            return self.layers(images)

    hangs = Workload(
        name="hangs", summary="", dataset="digits", model=Net,
        recipe=Recipe(
            optimizer=SGD(learning_rate=0.05, momentum=0.9, nesterov=False),
            batch_size=16, epochs=1, preprocess=Scale(factor=1 / 16),
        ),
    )
    if __name__ == "__main__":
        train(hangs, output="runs", devices="cpu", compile="off")
"""


def samples(run):
    lines = (run / "samples.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines[:-1]]
    return [line["steps"] for line in found if line["kind"] == "sample" and "steps" in line]


def test_a_training_that_hangs_in_its_first_epoch_is_told(tmp_path):
    (tmp_path / "hangs.py").write_text(textwrap.dedent(HANGING))
    with start_python("hangs.py", cwd=tmp_path) as process:

        def hangs():
            found = list(tmp_path.glob("runs/*/samples.jsonl"))
            return found and samples(found[0].parent)[-9:] == [HANGS_AT_STEP] * 9

        try:
            wait_until(hangs, "nine samples at one step", unless=process.poll)
            (path,) = tmp_path.glob("runs/*")
            glance = glance_training(path)
            rank = Rank(pid=process.pid, cpu_ratio=0.0, tells_stack=True)
            hang = find_hang(121.0, glance.step_s, [rank])
            assert hang is not None, glance
            assert hang.text.startswith("no sign of life for 2 min")
            assert hang.command == f"kill -USR2 {process.pid}"
            # Samples that go on are no sign of life.
            num = len(samples(path))
            wait_until(lambda: len(samples(path)) >= num + 5, "five more samples")
            assert glance_training(path).active_at == glance.active_at
        finally:
            process.kill()

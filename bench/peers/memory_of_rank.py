"""Trains some steps as one rank, and writes what memory it took: see ``sharded_memory.py``.

``memory_of_rank.py FOLDER WORKLOAD STRATEGY BATCH_SIZE STEPS [again]``
"""

import json
import os
import resource
import sys
from pathlib import Path

import psutil
import torch

import tarmac
from tarmac.training.engine.engine import Engine
from tarmac.training.session import epochs

folder, workload, strategy, batch_size, steps, *more = sys.argv[1:]
rank = int(os.environ.get("RANK", "0"))
found = {}


class Measured(Engine):
    def train_epoch(self, *arguments, **named):
        done = super().train_epoch(*arguments, **named)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        parameters, state = self.first_replica.parameters, self.save(0, 0)
        found["parameters"] = nbytes(state.model.values())
        found["gradients"] = nbytes(group.gradients for group in parameters.groups)
        found["optimizer"] = nbytes(state.optimizer.values())
        found["peak"] = peak - before
        return done


def nbytes(tensors):
    own = (t.to_local() if hasattr(t, "to_local") else t for t in tensors)
    return sum(tensor.nbytes for tensor in own)


torch.set_num_threads(1)
# What a process has that has only imported all of it is not the model's.
before = psutil.Process().memory_info().rss
epochs.Engine = Measured
tarmac.train(
    workload,
    strategy=strategy,
    devices="cpu",
    batch_size=int(batch_size),
    steps=int(steps),
    precision="fp32",
    activation_checkpointing=bool(more),
    output=Path(folder) / "runs",
)
Path(folder, f"rank-{rank}.json").write_text(json.dumps(found))

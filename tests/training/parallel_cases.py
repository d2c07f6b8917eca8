"""Does the conformance suite's trainings of a strategy of processes with the ranks that there are.

``torchrun --nproc-per-node 3 parallel_cases.py OUTPUT ddp``: one start for all of them, where the
launcher would start workers for each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from tarmac.testing.strategies import EVEN, LOCAL_NORM, PLAIN, SYNC_NORM

if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in (*EVEN, *PLAIN, *LOCAL_NORM, *SYNC_NORM):
        case.train(Path(sys.argv[1]), strategy=sys.argv[2])
